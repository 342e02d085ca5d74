// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.game.GameObject;
import forge.game.spellability.SpellAbility;
import forge.game.spellability.TargetChoices;
import forge.game.trigger.WrappedAbility;
import forge.util.MyRandom;
import java.util.*;

/** What spells and abilities are aimed at. */
record Targets(Seat seat) {
    /** Sets the targets of an ability; false if there are too few. */
    boolean choose(SpellAbility ability) {
        int min = ability.getMinTargets();
        int max = ability.getMaxTargets();
        if (max == 0) {
            return true;
        }
        if (ability.getTargetRestrictions().isRandomTarget()) {
            return random(ability, min, max);
        }
        List<GameObject> options = Moves.options(ability);
        if (ability.isDividedAsYouChoose()) {
            max = Math.min(max, Math.max(min, ability.getStillToDivide()));
        }
        if (options.size() < min) {
            return false;
        }
        if (max > 1 && options.size() > 1 && Moves.dependent(ability, options)) {
            return oneByOne(ability, min, max);
        }
        List<GameObject> chosen = seat.questions.targets(ability, options, min, max, () -> seat.aiTargets(ability));
        if (ability.getTargets().isEmpty()) { // not when Forge's AI has set them
            ability.getTargets().addAll(chosen);
            divide(ability, chosen);
        }
        return ability.getTargets().size() >= min;
    }

    private boolean oneByOne(SpellAbility ability, int min, int max) {
        while (ability.getTargets().size() < max) {
            int least = min > ability.getTargets().size() ? 1 : 0;
            List<GameObject> options = Moves.options(ability);
            List<GameObject> chosen = seat.questions.targets(ability, options, least, 1, () -> seat.guess(options.subList(0, least)));
            if (chosen.isEmpty()) {
                break;
            }
            ability.getTargets().addAll(chosen);
        }
        divide(ability, new ArrayList<>(ability.getTargets()));
        return ability.getTargets().size() >= min;
    }

    private static boolean random(SpellAbility ability, int min, int max) {
        List<GameObject> candidates = Moves.options(ability);
        int wanted = Math.max(min, 1);
        if (ability.getTargetRestrictions().isRandomNumTargets()) {
            int top = Math.max(wanted, Math.min(candidates.size(), max));
            wanted += MyRandom.getRandom().nextInt(top - wanted + 1);
        }
        while (wanted-- > 0 && !candidates.isEmpty()) {
            ability.getTargets().add(candidates.remove(MyRandom.getRandom().nextInt(candidates.size())));
        }
        return ability.getTargets().size() >= min;
    }

    /** Divides damage or counters among targets: at least one each, the rest as chosen. */
    private void divide(SpellAbility ability, List<GameObject> targets) {
        if (!ability.isDividedAsYouChoose() || targets.isEmpty()) {
            return;
        }
        int left = ability.getStillToDivide();
        for (int i = 0; i < targets.size(); i++) {
            int after = targets.size() - i - 1;
            String name = "share of " + seat.view.label(targets.get(i));
            int share = after == 0 ? left : seat.questions.number(ability, name, 1, left - after, () -> seat.guess(1));
            ability.addDividedAllocation(targets.get(i), share);
            left -= share;
        }
    }

    /** For a spell whose targets may be changed; null: they stay. */
    TargetChoices change(SpellAbility ability, java.util.function.Predicate<GameObject> filter, boolean optional) {
        SpellAbility part = ability.isWrapper() ? ((WrappedAbility) ability).getWrappedAbility() : ability;
        if (!part.usesTargeting()) {
            return null;
        }
        TargetChoices before = part.getTargets();
        int count = before.size();
        part.clearTargets();
        List<GameObject> options = Moves.options(part);
        options.removeIf(option -> filter != null && !filter.test(option));
        if (count == 0 || options.size() < count || optional && !seat.questions.confirm(part, "Choose new targets", () -> seat.guess(false))) {
            part.setTargets(before);
            return optional ? null : before;
        }
        List<GameObject> chosen = seat.questions.targets(part, options, count, count, () -> seat.guess(null));
        part.getTargets().addAll(chosen);
        divide(part, chosen);
        return part.getTargets();
    }

    /** Observe mode: what Forge's AI aimed an ability at. */
    void tell(SpellAbility ability) {
        for (SpellAbility part = ability; part != null; part = part.getSubAbility()) {
            if (part.usesTargeting()) {
                TargetChoices targets = part.getTargets();
                List<GameObject> aimed = new ArrayList<>(targets);
                part.resetTargets();
                List<GameObject> options = Moves.options(part);
                part.setTargets(targets);
                seat.questions.targets(part, options, Math.min(part.getMinTargets(), aimed.size()),
                        Math.max(part.getMaxTargets(), aimed.size()), () -> aimed);
            }
        }
    }
}
