// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.base.Predicate;
import forge.card.*;
import forge.card.mana.ManaCost;
import forge.game.*;
import forge.game.card.*;
import forge.game.cost.Cost;
import forge.game.player.*;
import forge.game.spellability.SpellAbility;
import forge.game.zone.ZoneType;
import forge.item.PaperCard;
import forge.util.collect.FCollectionView;
import java.util.*;
import java.util.function.Supplier;

/** Answers the questions of Bridge, whose arguments are known by their types. */
record Bridged(Seat seat, Class<?> answer) {
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

    /** `ai` is what Forge's AI does. */
    Object answer(String name, Object[] given, Supplier<Object> ai) {
        if (name.equals("reveal")) {
            Player owner = argument(given, Player.class);
            seat.choices.reveal(argument(given, Iterable.class), argument(given, ZoneType.class),
                    owner == null ? argument(given, PlayerView.class) : owner, argument(given, String.class));
            return seat.think(ai);
        }
        if (name.equals("chooseCardsForConvokeOrImprovise")) {
            // 1.6 says whether it is improvise; 2.x artifacts, creatures: (true, false), (false, true), both for waterbend
            if (argument(given, Boolean.class) && Boolean.TRUE.equals(argument(given, Boolean.class, 1))) {
                return seat.paying.trying() ? seat.think(ai) : seat.left("waterbend", ai);
            }
            return seat.paying.tapped(argument(given, SpellAbility.class), argument(given, ManaCost.class),
                    argument(given, CardCollectionView.class), argument(given, Boolean.class), cast(ai));
        }
        if (name.equals("chooseCardsToDelve")) {
            return seat.paying.delved(argument(given, Integer.class), argument(given, CardCollection.class), cast(ai));
        }
        return seat.quiet() ? ai.get() : asked(name, given, ai);
    }

    private Object asked(String name, Object[] given, Supplier<Object> ai) {
        Questions questions = seat.questions;
        SpellAbility source = argument(given, SpellAbility.class);
        String text = argument(given, String.class);
        Integer number = argument(given, Integer.class);
        Integer second = argument(given, Integer.class, 1);
        Boolean optional = argument(given, Boolean.class);
        List<Object> list = cast(argument(given, List.class));
        switch (name) {
            case "announceRequirements":
                return seat.casting.announced(source, text);
            case "chooseNumberForKeywordCost":
                return seat.casting.times(source, argument(given, Cost.class), text, number, cast(ai));
            case "confirmAction", "confirmReplacementEffect":
                return questions.confirm(source, text, cast(ai));
            case "confirmBidAction":
                return questions.confirm(source, text + " (" + number + ")", cast(ai));
            case "confirmStaticApplication": // the AI's hint came before the question, later behind it
                boolean behind = argument(given, PlayerActionConfirmMode.class) != null;
                return questions.confirm(null, behind ? text : argument(given, String.class, 1), cast(ai));
            case "chooseBinary":
                Object kind = argument(given, PlayerController.BinaryChoiceType.class);
                return questions.confirm(source, text + " (" + kind + ")", cast(ai));
            case "chooseNumber":
                return list == null ? questions.number(source, text, number, second, cast(ai))
                        : questions.ability(source, text, list, String::valueOf, ai);
            case "chooseColor", "chooseColorAllowColorless":
                return source != null && source.isManaAbility() ? seat.left("payment", ai) : color(name, given, source, ai);
            case "chooseColors":
                return colors(source, text, list, given, ai);
            case "specifyManaCombo":
                return source.isManaAbility() ? seat.left("payment", ai)
                        : seat.choices.mana(source, argument(given, ColorSet.class), number, optional, cast(ai));
            case "chooseSomeType":
                Collection<?> invalid = argument(given, Collection.class, 1);
                return seat.choices.type(text, source, argument(given, Collection.class), invalid == null ? List.of() : invalid,
                        optional, cast(ai));
            case "chooseCardName":
                String message = argument(given, String.class, list == null ? 1 : 0);
                return seat.choices.name(source, message, cast(list), filter(given), cast(ai));
            case "chooseDungeon":
                List<PaperCard> dungeons = cast(list);
                return Card.fromPaperCard(questions.ability(null, text, dungeons, PaperCard::getName, () -> dungeons.stream()
                        .filter(card -> card.getName().equals(((Card) ai.get()).getName())).findFirst().orElse(null)),
                        argument(given, Player.class));
            case "chooseFlipResult":
                String[] sides = optional ? new String[] {"heads", "tails"} : new String[] {"won", "lost"};
                return questions.ability(source, "Which flip counts", List.of(true, false), up -> sides[up ? 0 : 1], cast(ai));
            case "chooseSpellAbilitiesForEffect":
                return questions.modes(source, text, list, number, number, this::label, cast(ai));
            case "playTrigger":
                return seat.remote ? seat.triggers.play(source) : seat.think(ai);
            case "assignCombatDamage", "divideShield", "orderBlockers", "orderAttackers", "orderBlocker":
                return damage(name, given, ai);
            case "playSpellAbilityForFree", "chooseNewTargetsFor", "payManaOptional", "payCombatCost":
                return seat.remote ? remote(name, given, source, ai) : ai.get();
            default:
                return !Bridge.ONE_OF.contains(name) ? cards(name, given, source, text, number, second, optional, ai)
                        : questions.ability(source, text == null ? "Choose" : text, list, this::label, ai);
        }
    }

    /** Where cards, or players, are chosen. */
    private Object cards(String name, Object[] given, SpellAbility source, String text, Integer number, Integer second,
            Boolean optional, Supplier<Object> ai) {
        Questions questions = seat.questions;
        CardCollectionView cards = argument(given, CardCollectionView.class);
        FCollectionView<GameEntity> things = cast(argument(given, FCollectionView.class));
        List<Card> list = cast(argument(given, List.class));
        CardCollectionView hand = seat.getPlayer().getCardsIn(ZoneType.Hand);
        seat.choices.reveal(argument(given, DelayedReveal.class));
        switch (name) {
            case "choosePermanentsToSacrifice", "choosePermanentsToDestroy":
                String verb = name.substring("choosePermanentsTo".length());
                return questions.cards(verb + " " + text, source, cards, number, second, cast(ai));
            case "chooseCardsForEffect":
                if (optional && number > 1 && !questions.confirm(source, text, () -> seat.guess(true))) {
                    return CardCollection.EMPTY; // "3 to 5 or none at all" is two questions
                }
                return questions.cards(text, source, cards, optional && number == 1 ? 0 : number, second, cast(ai));
            case "chooseSingleEntityForEffect":
                return questions.entity(source, text, things, optional, cast(ai));
            case "chooseSingleCardForZoneChange":
                return questions.entity(source, text, cards, optional, cast(ai));
            case "chooseEntitiesForEffect":
                return questions.some(text, source, things, number, second, cast(ai));
            case "chooseCardsForZoneChange":
                return questions.some(text, source, cards, number, second, cast(ai));
            case "chooseCardsForEffectMultiple":
                return seat.choices.ofEachKind(cast(argument(given, Map.class)), source, text, optional);
            case "chooseCardsToDiscardToMaximumHandSize":
                return questions.cards("Discard to the maximum hand size", null, hand, number, number, cast(ai));
            case "chooseCardsToDiscardFrom":
                return questions.cards("Discard", source, cards, number, second, cast(ai));
            case "chooseCardsToDiscardUnlessType":
                String[] words = text == null ? argument(given, String[].class) : text.split(",");
                return seat.choices.discardUnless(number, cards, words, text != null, source, cast(ai));
            case "chooseCardsToRevealFromHand":
                return questions.cards("Reveal", null, cards, number, second, cast(ai));
            case "londonMulliganReturnCards", "tuckCardsViaMulligan":
                return !seat.table.request.mulligans ? seat.think(ai)
                        : questions.cards("Put on the bottom of the library", null, hand, number, number, cast(ai));
            case "arrangeForScry", "arrangeForSurveil":
                return questions.arrange((CardCollection) cards, name.endsWith("Scry") ? "library" : "graveyard", cast(ai));
            case "willPutCardOnTop":
                Card top = argument(given, Card.class);
                return questions.showing(List.of(top),
                        () -> questions.confirm(null, "Leave " + top.getName() + " on top of the library", cast(ai)));
            case "orderMoveToZoneList":
                return seat.choices.order(cards, argument(given, ZoneType.class), source, cast(ai));
            case "chooseCardsPile":
                boolean all = text.equals("True");
                return questions.confirm(source, "Take the first pile: " + Choices.pile(cards, all || text.equals("One"))
                        + "; the second pile: " + Choices.pile(argument(given, CardCollectionView.class, 1), all), cast(ai));
            case "chooseSaToActivateFromOpeningHand":
                List<SpellAbility> usable = cast(list);
                return questions.set("choose_cards", null, json -> json.put("message", "Begin the game with"), usable, 0,
                        usable.size(), (json, ability) -> seat.view.option(json, ability.getHostCard()), cast(ai));
            case "enlistAttackers", "exertAttackers":
                return questions.some(name.startsWith("enlist") ? "Enlist" : "Exert", null, list, 0, list.size(), cast(ai));
            case "chooseCardsForSplice":
                return seat.casting.splice(source, list, cast(ai));
            default:
                throw new IllegalStateException(name);
        }
    }

    private String label(Object thing) {
        return thing instanceof Card card ? seat.view.name(card) + " (" + seat.view.id(card) + ")"
                : thing instanceof SpellAbility ability && !ability.isWrapper() ? View.describe(ability) : String.valueOf(thing);
    }

    private Object damage(String name, Object[] given, Supplier<Object> ai) {
        Damage damage = new Damage(seat, argument(given, Card.class));
        CardCollection cards = argument(given, CardCollection.class);
        switch (name) {
            case "assignCombatDamage":
                return damage.assign(argument(given, CardCollectionView.class), argument(given, Integer.class),
                        argument(given, GameEntity.class, 1), argument(given, Boolean.class), cast(ai));
            case "divideShield":
                return damage.shield(cast(argument(given, Map.class)), argument(given, Integer.class));
            case "orderBlocker":
                return damage.insert(argument(given, Card.class, 1), cards, cast(ai));
            default:
                return damage.order(cards, cast(ai));
        }
    }

    /** Guava's predicates, later Java's. */
    private static <T> java.util.function.Predicate<T> filter(Object[] given) {
        Predicate<T> guava = cast(argument(given, Predicate.class));
        return guava != null ? guava::apply : cast(argument(given, java.util.function.Predicate.class));
    }

    /** Where more is done than asked, which in observe mode is left to Forge's AI. */
    private Object remote(String name, Object[] given, SpellAbility source, Supplier<Object> ai) {
        switch (name) {
            case "playSpellAbilityForFree":
                source.setActivatingPlayer(seat.getPlayer());
                if (!argument(given, Boolean.class) || source.setupTargets()) {
                    Reflect.call(Moves.FOR_FREE, null, seat.getPlayer(), source);
                }
                return null;
            case "chooseNewTargetsFor":
                return seat.targets.change(source, filter(given), argument(given, Boolean.class));
            default:
                return seat.casting.payOptional(argument(given, Card.class), argument(given, Cost.class), source,
                        argument(given, String.class));
        }
    }

    /** A colour is a byte, or an enum constant that knows its byte. */
    private Object color(String name, Object[] given, SpellAbility source, Supplier<Object> ai) {
        byte chosen = seat.choices.color(argument(given, String.class), source, argument(given, ColorSet.class),
                name.endsWith("Colorless"), () -> mask(ai.get()));
        Object[] constants = answer.getEnumConstants();
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
        return ColorSet.fromNames(chosen);
    }
}
