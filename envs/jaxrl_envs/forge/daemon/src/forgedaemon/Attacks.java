// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.game.GameEntity;
import forge.game.card.Card;
import forge.game.combat.Combat;
import forge.game.combat.CombatUtil;
import forge.game.player.Player;
import java.util.*;
import org.apache.commons.lang3.tuple.Pair;

/** Who attacks whom. */
final class Attacks {
    private final Seat seat;
    private final View view;
    private final Combat combat;
    private final List<Card> attackers = new ArrayList<>();
    private final List<List<GameEntity>> defenders = new ArrayList<>();

    Attacks(Seat seat, Player attacker, Combat combat) {
        this.seat = seat;
        this.view = seat.view;
        this.combat = combat;
        for (Card card : CombatUtil.getPossibleAttackers(attacker)) {
            List<GameEntity> possible = new ArrayList<>();
            for (GameEntity defender : combat.getDefenders()) {
                if (CombatUtil.canAttack(card, defender)) {
                    possible.add(defender);
                }
            }
            if (!possible.isEmpty()) {
                attackers.add(card);
                defenders.add(possible);
            }
        }
    }

    void declare(Runnable ai) {
        if (attackers.isEmpty()) {
            return;
        }
        Pair<Map<Card, GameEntity>, Integer> best = combat.getAttackConstraints().getLegalAttackers();
        Map<Card, GameEntity> forced = best.getRight() > 0 ? best.getLeft() : Map.of();
        List<int[]> choice = seat.<List<int[]>>ask("declare_attackers", json -> write(json, forced), "",
                text -> Answers.pairs(text, attackers.size(), index -> defenders.get(index).size(), true), () -> {
                    ai.run();
                    return declared();
                }, Answers::said);
        if (seat.remote && combat.getAttackers().isEmpty()) {
            for (int[] pair : choice) {
                combat.addAttacker(attackers.get(pair[0]), defenders.get(pair[0]).get(pair[1]));
            }
            makeLegal(best.getLeft());
        }
    }

    private void write(Json json, Map<Card, GameEntity> forced) {
        json.numbered("attackers", attackers, card -> view.named(json, card).put("must", forced.containsKey(card))
                .<GameEntity>numbered("defenders", defenders.get(attackers.indexOf(card)),
                        defender -> view.object(json, defender).put("name", view.label(defender))));
    }

    private List<int[]> declared() {
        List<int[]> result = new ArrayList<>();
        for (Card card : combat.getAttackers()) {
            int at = attackers.indexOf(card);
            int defender = at < 0 ? -1 : defenders.get(at).indexOf(combat.getDefenderByAttacker(card));
            if (defender < 0) {
                return null;
            }
            result.add(new int[] {at, defender});
        }
        return result;
    }

    /** The engine asks again for ever when an attack is illegal, so an illegal one is mended and told. */
    private void makeLegal(Map<Card, GameEntity> best) {
        if (CombatUtil.validateAttackers(combat)) {
            return;
        }
        Map<Card, GameEntity> wanted = new LinkedHashMap<>(combat.getAttackersAndDefenders());
        best.forEach(wanted::putIfAbsent); // with those that must attack
        List<Card> optional = new ArrayList<>(wanted.keySet());
        optional.removeAll(best.keySet());
        while (!legal(wanted) && !optional.isEmpty()) { // then without one after the other of those that need not
            wanted.remove(optional.remove(optional.size() - 1));
        }
        if (!CombatUtil.validateAttackers(combat)) {
            legal(best);
        }
        seat.repaired("declare_attackers", "attackers", combat.getAttackers());
    }

    private boolean legal(Map<Card, GameEntity> attack) {
        combat.clearAttackers();
        attack.forEach(combat::addAttacker);
        return CombatUtil.validateAttackers(combat);
    }
}
