// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Lists;
import forge.game.Game;
import forge.game.ability.ApiType;
import forge.game.card.Card;
import forge.game.cost.Cost;
import forge.game.phase.PhaseHandler;
import forge.game.player.Player;
import forge.game.spellability.*;
import forge.game.zone.ZoneType;
import java.lang.reflect.Field;
import java.util.*;
import java.util.function.Supplier;

/** Which action a seat takes when it has priority, and what Forge's AI chose where it does. */
final class Priority {
    private static final Field FIRST = Reflect.field(PhaseHandler.class, "pFirstPriority");

    private final Seat seat;
    /** The ability that Forge's AI chose in answer to `ai`: it also decides all about it. */
    private SpellAbility chosenByAi;
    /** Actions that turned out to be impossible, until something else happens. */
    private final Set<String> failed = new HashSet<>();
    private String failedAt = "";

    Priority(Seat seat) {
        this.seat = seat;
    }

    List<SpellAbility> choose(Supplier<List<SpellAbility>> ai) {
        seat.getGame().getStack().setResolving(false); // see skipCheck
        List<SpellAbility> choice = chosen(ai);
        if (choice == null && seat.remote && seat.table.facts != null) {
            skipCheck();
        }
        return choice;
    }

    /**
     * After a pass, a short cut. The engine checks state-based effects whenever a player gets priority; when the other
     * player has just passed, nothing has happened since the last check. A check does nothing while something resolves.
     */
    private void skipCheck() {
        Game game = seat.getGame();
        PhaseHandler phases = game.getPhaseHandler();
        Player next = game.getNextPlayerAfter(phases.getPriorityPlayer());
        if (FIRST != null && next != null && Reflect.get(FIRST, phases) != next && !game.getStack().hasSimultaneousStackEntries()) {
            game.getStack().setResolving(true);
        }
    }

    private List<SpellAbility> chosen(Supplier<List<SpellAbility>> ai) {
        seat.table.check();
        seat.table.settle(seat, false);
        chosenByAi = null;
        if (seat.quiet()) {
            return ai.get();
        }
        List<SpellAbility> actions = seat.think(() -> Moves.legal(seat.getPlayer(), seat.table.facts));
        forgetFailures();
        actions.removeIf(action -> !failed.isEmpty() && failed.contains(key(action)));
        if (actions.isEmpty() && seat.lazy()) {
            return null;
        }
        return seat.<List<SpellAbility>>ask("choose_action", json -> actions(json, actions), "-1", text -> {
            int at = Answers.index(text, -1, actions.size());
            return at < 0 ? null : Lists.newArrayList(actions.get(at));
        }, () -> {
            List<SpellAbility> choice = ai.get();
            chosenByAi = choice == null || choice.isEmpty() ? null : choice.get(0);
            return choice;
        }, choice -> choice == null || choice.isEmpty() ? "-1" : said(choice.get(0), actions));
    }

    private void actions(Json json, List<SpellAbility> actions) {
        View view = seat.view;
        json.numbered("actions", actions, action -> {
            Card card = action.getHostCard();
            boolean land = action instanceof LandAbility;
            Cost cost = action.getPayCosts();
            String mana = land || cost == null || !cost.hasManaCost() ? "" : cost.getTotalMana().toString();
            json.put("description", Json.oneLine(land ? "Play land" : View.describe(action)))
                    .put("card", view.name(card)).put("card_id", view.id(card)).put("mana_cost", mana)
                    .put("is_land", land).put("kind", land ? "land" : action.isSpell() ? "spell" : "ability")
                    .put("part", land ? -1 : view.part(action));
        });
    }

    /** The action that is meant by an ability of Forge's AI, which may be another copy of it. */
    private static String said(SpellAbility ability, List<SpellAbility> actions) {
        int at = actions.indexOf(ability);
        for (int i = 0; at < 0 && i < actions.size(); i++) {
            SpellAbility action = actions.get(i);
            if (action.getHostCard() == ability.getHostCard() && (action instanceof LandAbility)
                    == (ability instanceof LandAbility) && View.describe(action).equals(View.describe(ability))) {
                at = i;
            }
        }
        return at < 0 ? null : String.valueOf(at);
    }

    private void forgetFailures() {
        Game game = seat.getGame();
        Player player = seat.getPlayer();
        PhaseHandler phases = game.getPhaseHandler();
        String now = phases.getTurn() + " " + phases.getPhase() + " " + game.getStack().size() + " "
                + player.getCardsIn(ZoneType.Hand).size() + " " + player.getCardsIn(ZoneType.Battlefield).size();
        if (!now.equals(failedAt)) {
            failedAt = now;
            failed.clear();
        }
    }

    static String key(SpellAbility action) {
        return action.getHostCard().getId() + " " + View.describe(action);
    }

    /** Carries out what was chosen. */
    boolean play(SpellAbility ability, Supplier<Boolean> ai) {
        seat.table.check();
        if (ability instanceof LandAbility) {
            return ai.get();
        }
        if (seat.quiet() || ability == chosenByAi) {
            if (!seat.remote && !seat.quiet()) {
                tell(ability);
            }
            chosenByAi = null;
            try {
                return seat.lend(ai);
            } finally {
                seat.modes.forget();
            }
        }
        String key = key(ability);
        boolean done = seat.casting.play(ability);
        if (!done) {
            failed.add(key);
        }
        return done;
    }

    /** Observe mode: what Forge's AI announced and aimed at with the ability that it is about to play. */
    private void tell(SpellAbility ability) {
        Integer x = ability.getXManaCostPaid();
        if (x != null && ability.getPayCosts() != null && ability.getPayCosts().hasXInAnyCostPart()) {
            int most = seat.think(() -> Moves.greatestX(ability, seat.getPlayer(), 0, seat.table.facts));
            seat.questions.number(ability, "X", 0, Math.max(x, most), () -> x);
        }
        List<AbilitySub> chosen = ability.getApi() == ApiType.Charm ? ability.getChosenList() : null;
        if (chosen == null) {
            seat.targets.tell(ability);
        } else {
            seat.modes.tell(ability, chosen);
        }
    }
}
