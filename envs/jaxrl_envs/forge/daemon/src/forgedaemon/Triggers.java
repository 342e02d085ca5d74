// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Lists;
import forge.ai.ComputerUtil;
import forge.game.ability.ApiType;
import forge.game.ability.effects.CharmEffect;
import forge.game.spellability.LandAbility;
import forge.game.spellability.SpellAbility;
import forge.game.zone.ZoneType;
import java.util.List;
import java.util.function.Supplier;

/** Triggers, in which order and whether, and spells that effects let a seat play. */
record Triggers(Seat seat) {
    void orderAndPlay(List<SpellAbility> abilities, Runnable ai) {
        seat.table.check();
        if (seat.quiet() || !seat.remote && !abilities.stream().allMatch(SpellAbility::isTrigger)) {
            seat.think(ai);
            return;
        }
        List<SpellAbility> ordered = abilities;
        if (abilities.size() > 1 && distinct(abilities)) {
            ordered = seat.questions.order(null, "Order of resolution, the first resolves first", abilities,
                    Questions.texts(String::valueOf), () -> Lists.reverse(seat.getAi().orderPlaySa(abilities)));
        }
        for (int i = ordered.size() - 1; i >= 0; i--) {
            putOnStack(ordered.get(i));
        }
    }

    private static boolean distinct(List<SpellAbility> abilities) {
        String first = String.valueOf(abilities.get(0));
        return abilities.stream().anyMatch(ability -> !ability.isTrigger() || !String.valueOf(ability).equals(first));
    }

    private void putOnStack(SpellAbility ability) {
        if (ability.isTrigger() && (Moves.ROLLBACK == null || !ability.isCopied())) {
            ability.setActivatingPlayer(seat.getPlayer());
            if (!seat.remote && aimed(ability)) {
                ComputerUtil.playStack(ability, seat.getPlayer(), seat.getGame());
            } else if (seat.remote && Moves.hasTargets(ability) && hasModes(ability) && ability.setupTargets()) {
                seat.casting.stack(ability);
            }
            return;
        }
        if (ability.isCopied()) {
            if (ability.isSpell() && ability.getHostCard().isInZone(ZoneType.Stack)) {
                seat.getGame().getStackZone().add(ability.getHostCard());
            } else if (ability.isSpell()) {
                ability.setHostCard(seat.getGame().getAction().moveToStack(ability.getHostCard(), ability));
            }
            if (ability.isMayChooseNewTargets()) {
                ability.setupNewTargets(seat.getPlayer());
            }
        }
        seat.getGame().getStack().add(ability);
    }

    /** Later versions leave it to the controller to choose the modes of a trigger, earlier ones have chosen them before. */
    private static boolean hasModes(SpellAbility trigger) {
        return trigger.getApi() != ApiType.Charm || trigger.getSubAbility() != null || CharmEffect.makeChoices(trigger);
    }

    /** Observe mode: Forge's AI aims a trigger, and it is told at what. */
    private boolean aimed(SpellAbility trigger) {
        boolean modal = trigger.getApi() == ApiType.Charm && trigger.getSubAbility() == null && !trigger.hasParam("Random");
        if (!hasModes(trigger) || !modal && (trigger.hasParam("TargetingPlayer") ? !trigger.setupTargets()
                : !seat.think(() -> seat.getAi().doTrigger(trigger, true)))) {
            return false;
        }
        seat.targets.tell(trigger);
        return true;
    }

    /** A trigger that resolves at once. */
    boolean play(SpellAbility trigger) {
        return Moves.hasTargets(trigger) && (Moves.ROLLBACK == null || hasModes(trigger)) && trigger.setupTargets()
                && seat.casting.resolve(trigger);
    }

    void playEffect(SpellAbility effect, boolean targets) {
        if (targets) {
            effect.setActivatingPlayer(seat.getPlayer());
        }
        if (!targets || effect.setupTargets()) {
            seat.casting.resolve(effect);
        }
    }

    /** A spell that an effect lets this seat play while it resolves. */
    boolean playSpell(SpellAbility spell, Supplier<Boolean> ai) {
        if (seat.quiet() || !seat.remote) {
            return ai.get();
        }
        spell.setActivatingPlayer(seat.getPlayer());
        if (spell instanceof LandAbility || !spell.isSpell()) {
            return ai.get();
        }
        SpellAbility played = spell.hasParam("WithoutManaCost") ? spell.copyWithNoManaCost() : spell; // later its cost says so
        played.setActivatingPlayer(seat.getPlayer());
        return spell.checkRestrictions(seat.getPlayer()) && Moves.hasTargets(played) && Moves.canPay(played, seat.getPlayer())
                && (!spell.hasParam("Optional") || seat.questions.confirm(spell, "Play " + seat.view.name(spell.getHostCard()), ai))
                && seat.casting.play(played);
    }
}
