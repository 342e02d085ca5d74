// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.game.ability.AbilityUtils;
import forge.game.ability.effects.CharmEffect;
import forge.game.spellability.AbilitySub;
import forge.game.spellability.SpellAbility;
import java.util.*;
import java.util.function.Function;

/** Which modes of a spell or trigger are chosen. */
final class Modes {
    private final Seat seat;
    /** Modes that were chosen before the spell was put on the stack. */
    private List<AbilitySub> chosen;

    Modes(Seat seat) {
        this.seat = seat;
    }

    void forget() {
        chosen = null;
    }

    /** Before a spell is put on the stack; false if too few are possible. */
    boolean choose(SpellAbility charm) {
        List<AbilitySub> all = CharmEffect.makePossibleOptions(charm);
        if (charm.isEntwine() || charm.hasParam("Random") || charm.hasParam("Chooser")) {
            return true; // nothing for this seat to choose
        }
        boolean repeat = charm.hasParam("CanRepeatModes");
        int wanted = amount(charm, "CharmNum");
        chosen = ask(charm, Moves.feasible(charm, all), least(charm), repeat ? wanted : Math.min(wanted, all.size()), repeat);
        return chosen != null;
    }

    static int least(SpellAbility charm) {
        return amount(charm, charm.hasParam("MinCharmNum") ? "MinCharmNum" : "CharmNum");
    }

    private static int amount(SpellAbility charm, String parameter) {
        return AbilityUtils.calculateAmount(charm.getHostCard(), charm.getParamOrDefault(parameter, "1"), charm);
    }

    /** The engine's own question. */
    List<AbilitySub> chosen(SpellAbility charm, List<AbilitySub> possible, int min, int max, boolean repeat) {
        if (chosen != null || seat.quiet()) {
            return chosen != null ? chosen : seat.aiModes(charm, possible, min, max, repeat);
        }
        List<AbilitySub> options = Moves.feasible(charm, possible);
        List<AbilitySub> result = ask(charm, options.size() < min ? possible : options, min, max, repeat);
        return result == null ? new ArrayList<>() : result;
    }

    private List<AbilitySub> ask(SpellAbility charm, List<AbilitySub> options, int min, int max, boolean repeat) {
        int most = repeat ? max : Math.min(max, options.size());
        if (options.isEmpty() || most < min) {
            return null;
        }
        String fallback = repeat ? Answers.join(Collections.nCopies(min, 0)) : Answers.first(min);
        Function<String, List<AbilitySub>> parse =
                text -> Answers.select(options, Answers.indices(text, options.size(), min, most, repeat));
        if (seat.lazy() && (options.size() == 1 && (repeat || min == 1) || !repeat && options.size() == min)) {
            return parse.apply(fallback);
        }
        return seat.ask("choose_mode", json -> write(json, charm, min, most, repeat, options), fallback, parse,
                () -> seat.aiModes(charm, options, min, max, repeat), modes -> Answers.said(modes, options));
    }

    private void write(Json json, SpellAbility charm, int min, int max, boolean repeat, List<AbilitySub> options) {
        seat.view.source(json, charm);
        json.put("min", min).put("max", max).put("repeat", repeat);
        Questions.options(json, options, Questions.texts(mode -> mode.getDescription()));
    }

    /** The targets of all parts behind the first. */
    void chooseTargets(SpellAbility charm) {
        for (SpellAbility part = charm.getSubAbility(); part != null; part = part.getSubAbility()) {
            if (part.usesTargeting()) {
                part.clearTargets();
                seat.chooseTargetsFor(part);
            }
        }
    }

    /** Observe mode: what Forge's AI chose, which is not told again when the engine asks. */
    void tell(SpellAbility charm, List<AbilitySub> modes) {
        List<AbilitySub> options = CharmEffect.makePossibleOptions(charm);
        seat.<List<AbilitySub>>ask("choose_mode",
                json -> write(json, charm, modes.size(), modes.size(), charm.hasParam("CanRepeatModes"), options),
                "", text -> null, () -> modes, choice -> Answers.said(choice, options));
        modes.forEach(seat.targets::tell);
        chosen = modes;
    }
}
