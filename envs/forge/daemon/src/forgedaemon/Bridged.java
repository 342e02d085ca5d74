// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.base.Predicate;
import forge.card.ColorSet;
import forge.card.MagicColor;
import forge.game.GameObject;
import forge.game.card.*;
import forge.game.cost.Cost;
import forge.game.player.*;
import forge.game.spellability.SpellAbility;
import forge.game.zone.ZoneType;
import java.lang.reflect.Method;
import java.util.*;
import java.util.function.Supplier;

/** Answers the questions of Bridge, whose arguments are known by their types. */
record Bridged(Seat seat) {
    /** The first argument of a type; null: none, or it is null. */
    private static <T> T argument(Object[] given, Class<T> type) {
        return argument(given, type, 0);
    }

    private static <T> T argument(Object[] given, Class<T> type, int skipped) {
        return Arrays.stream(given).filter(type::isInstance).skip(skipped).map(type::cast).findFirst().orElse(null);
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object value) {
        return (T) value;
    }

    Object answer(Method method, Object[] given) {
        Supplier<Object> ai = () -> Bridge.inherited(seat, method, given);
        if (method.getName().equals("reveal")) {
            Player owner = argument(given, Player.class);
            seat.choices.reveal(argument(given, Iterable.class), argument(given, ZoneType.class),
                    owner == null ? argument(given, PlayerView.class) : owner, argument(given, String.class));
            return seat.think(ai);
        }
        return seat.quiet() ? ai.get() : answer(method, given, ai);
    }

    private Object answer(Method method, Object[] given, Supplier<Object> ai) {
        Questions questions = seat.questions;
        SpellAbility source = argument(given, SpellAbility.class);
        String text = argument(given, String.class);
        CardCollectionView cards = argument(given, CardCollectionView.class);
        Integer number = argument(given, Integer.class);
        List<Object> list = cast(argument(given, List.class));
        switch (method.getName()) {
            case "announceRequirements":
                return seat.casting.announced(source, text);
            case "confirmAction":
                return questions.confirm(source, text, cast(ai));
            case "confirmStaticApplication": // the AI's hint came before the question, later behind it
                boolean behind = argument(given, PlayerActionConfirmMode.class) != null;
                return questions.confirm(null, behind ? text : argument(given, String.class, 1), cast(ai));
            case "chooseColor", "chooseColorAllowColorless":
                return source != null && source.isManaAbility() ? ai.get() : color(method, given, source, ai);
            case "chooseColors":
                return colors(source, text, list, given, ai);
            case "chooseProtectionType":
                return questions.ability(source, text, list, String::valueOf, ai);
            case "chooseSomeType":
                Collection<?> invalid = argument(given, Collection.class, 1);
                return seat.choices.type(text, source, argument(given, Collection.class),
                        invalid == null ? List.of() : invalid, argument(given, Boolean.class), cast(ai));
            case "chooseSingleReplacementEffect":
                return questions.ability(null, text, list, String::valueOf, ai);
            case "enlistAttackers":
                List<Card> attackers = cast(list);
                return questions.some("Enlist attackers", null, attackers, 0, attackers.size(), cast(ai));
            case "orderBlockers":
                String attacker = seat.view.name(argument(given, Card.class));
                return cards.size() < 2 ? ai.get() : new CardCollection(questions.order(null, "Order in which " + attacker
                        + " damages its blockers", cards, questions.things(), cast(ai)));
            case "chooseCardsToDiscardFrom":
                return questions.cards("Discard", source, cards, number, argument(given, Integer.class, 1), cast(ai));
            case "chooseCardsToDiscardUnlessType":
                String[] words = text == null ? argument(given, String[].class) : text.split(",");
                return seat.choices.discardUnless(number, cards, words, text != null, source, cast(ai));
            case "londonMulliganReturnCards", "tuckCardsViaMulligan":
                CardCollectionView hand = cards == null ? argument(given, Player.class).getCardsIn(ZoneType.Hand) : cards;
                return !seat.table.request.mulligans ? seat.think(ai)
                        : questions.cards("Put on the bottom of the library", null, hand, number, number, cast(ai));
            case "playTrigger":
                return seat.remote ? seat.triggers.play(source) : seat.think(ai);
            default:
                return seat.remote ? remote(method, given, source, ai) : ai.get();
        }
    }

    /** Where more is done than asked, which in observe mode is left to Forge's AI. */
    private Object remote(Method method, Object[] given, SpellAbility source, Supplier<Object> ai) {
        switch (method.getName()) {
            case "playSpellAbilityForFree":
                source.setActivatingPlayer(seat.getPlayer());
                if (!argument(given, Boolean.class) || source.setupTargets()) {
                    Reflect.call(Moves.FOR_FREE, null, seat.getPlayer(), source);
                }
                return null;
            case "chooseNewTargetsFor":
                Predicate<GameObject> filter = cast(argument(given, Predicate.class)); // Guava's, later Java's
                return seat.targets.change(source, filter != null ? filter::apply
                        : cast(argument(given, java.util.function.Predicate.class)), argument(given, Boolean.class));
            case "payManaOptional", "payCombatCost":
                Card card = argument(given, Card.class);
                Cost cost = argument(given, Cost.class);
                String prompt = argument(given, String.class);
                return new Casting.Payment(card, cost, card.getController(), source).payable(seat)
                        && seat.questions.confirm(source, prompt == null ? "Pay " + cost : prompt, () -> true)
                        && (Boolean) seat.think(ai);
            default:
                return ai.get();
        }
    }

    /** A colour is a byte, or an enum constant that knows its byte. */
    private Object color(Method method, Object[] given, SpellAbility source, Supplier<Object> ai) {
        byte chosen = seat.choices.color(argument(given, String.class), source, argument(given, ColorSet.class),
                method.getName().endsWith("Colorless"), () -> mask(ai.get()));
        Object[] constants = method.getReturnType().getEnumConstants();
        return constants == null ? chosen : Arrays.stream(constants).filter(each -> mask(each) == chosen).findFirst().orElse(null);
    }

    private static Byte mask(Object color) {
        return color instanceof Byte bits ? bits : (Byte) Reflect.call(Reflect.method(color.getClass(), "getColorMask", 0), color);
    }

    /** Several colours: their names, or a set of them. */
    private Object colors(SpellAbility source, String text, List<Object> names, Object[] given, Supplier<Object> ai) {
        int min = argument(given, Integer.class);
        int max = argument(given, Integer.class, 1);
        if (names != null) {
            return seat.questions.modes(source, text, names, min, max, String::valueOf, cast(ai));
        }
        List<String> chosen = seat.questions.modes(source, text, Choices.names(argument(given, ColorSet.class)), min, max,
                String::valueOf, () -> Choices.names((ColorSet) ai.get()));
        int mask = 0;
        for (int bit = 1; bit < 32; bit <<= 1) {
            mask |= chosen.contains(MagicColor.toLongString((byte) bit)) ? bit : 0;
        }
        return ColorSet.fromMask(mask);
    }
}
