// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.game.card.Card;
import forge.game.combat.Combat;
import forge.game.combat.CombatUtil;
import forge.game.player.Player;
import java.util.*;

/** Who blocks whom. */
final class Blocks {
    private final Seat seat;
    private final View view;
    private final Player defender;
    private final Combat combat;
    private final List<Card> attackers;
    private final List<Card> blockers = new ArrayList<>();
    /** For each blocker the attackers that it can block. */
    private final List<List<Integer>> targets = new ArrayList<>();

    Blocks(Seat seat, Player defender, Combat combat) {
        this.seat = seat;
        this.view = seat.view;
        this.defender = defender;
        this.combat = combat;
        attackers = new ArrayList<>(combat.getAttackers());
        attackers.removeIf(attacker -> combat.getDefenderPlayerByAttacker(attacker) != defender);
        for (Card card : defender.getCreaturesInPlay()) {
            List<Integer> possible = new ArrayList<>();
            for (int i = 0; i < attackers.size(); i++) {
                if (CombatUtil.canBlock(attackers.get(i), card, combat)) {
                    possible.add(i);
                }
            }
            if (!possible.isEmpty()) {
                blockers.add(card);
                targets.add(possible);
            }
        }
    }

    void declare(Runnable ai) {
        if (blockers.isEmpty()) {
            return;
        }
        List<int[]> choice = seat.<List<int[]>>ask("declare_blockers", this::write, "", this::parse, () -> {
            ai.run();
            return declared();
        }, Answers::said);
        if (seat.remote && combat.getAllBlockers().isEmpty() && repaired(choice, ai)) {
            seat.table.tell(seat, "repaired",
                    json -> json.put("decision_type", "declare_blockers").put("choice", Answers.said(declared())));
        }
    }

    private void write(Json json) {
        json.numbered("attackers", attackers, attacker -> {
            int least = 1;
            while (least < blockers.size() && !mayBeBlockedBy(least, attacker)) {
                least++;
            }
            int most = least;
            while (most < blockers.size() && mayBeBlockedBy(most + 1, attacker)) {
                most++;
            }
            view.named(json, attacker).put("min_blockers", least).put("max_blockers", most >= blockers.size() ? 0 : most);
        }).numbered("blockers", blockers, card -> view.named(json, card)
                .list("can_block", targets.get(blockers.indexOf(card)), json::item)
                .put("must", CombatUtil.mustBlockAnAttacker(card, combat, null)
                        || card.hasKeyword("CARDNAME blocks each combat if able.")));
    }

    private boolean mayBeBlockedBy(int number, Card attacker) {
        return CombatUtil.canAttackerBeBlockedWithAmount(attacker, number, defender);
    }

    private List<int[]> parse(String text) {
        List<int[]> result = Answers.pairs(text, blockers.size(), blocker -> attackers.size(), false);
        for (int[] pair : result) {
            if (!targets.get(pair[0]).contains(pair[1])) {
                throw new Refusal("blocker " + pair[0] + " cannot block attacker " + pair[1]);
            }
        }
        return result;
    }

    private List<int[]> declared() {
        List<int[]> result = new ArrayList<>();
        for (int b = 0; b < blockers.size(); b++) {
            for (int a = 0; a < attackers.size(); a++) {
                if (combat.isBlocking(blockers.get(b), attackers.get(a))) {
                    result.add(new int[] {b, a});
                }
            }
        }
        return result;
    }

    /** Declares blocks and takes back what the rules do not allow; whether there was any. */
    private boolean repaired(List<int[]> choice, Runnable ai) {
        boolean repaired = false;
        for (int[] pair : choice) {
            Card attacker = attackers.get(pair[1]);
            Card blocker = blockers.get(pair[0]);
            if (CombatUtil.canBlock(attacker, blocker, combat)) {
                combat.addBlocker(attacker, blocker);
            } else {
                repaired = true;
            }
        }
        for (Card attacker : attackers) {
            List<Card> assigned = new ArrayList<>(combat.getBlockers(attacker));
            while (!assigned.isEmpty() && !mayBeBlockedBy(assigned.size(), attacker)) {
                combat.removeBlockAssignment(attacker, assigned.remove(assigned.size() - 1));
                repaired = true;
            }
        }
        if (CombatUtil.validateBlocks(combat, defender) == null) {
            return repaired;
        }
        for (Card blocker : new ArrayList<>(combat.getAllBlockers())) {
            if (blocker.getController() == defender) {
                combat.undoBlockingAssignment(blocker);
            }
        }
        if (CombatUtil.validateBlocks(combat, defender) != null) {
            seat.think(ai);
        }
        return true;
    }
}
