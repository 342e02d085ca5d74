// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Iterables;
import com.google.common.collect.Lists;
import forge.StaticData;
import forge.card.ColorSet;
import forge.card.ICardFace;
import forge.card.MagicColor;
import forge.game.Game;
import forge.game.card.*;
import forge.game.player.*;
import forge.game.spellability.SpellAbility;
import forge.game.zone.ZoneType;
import java.lang.reflect.Method;
import java.util.*;
import java.util.function.Predicate;
import java.util.function.Supplier;

/** Choices whose options are not simply those of the engine: discards, colours, types, and what is revealed. */
record Choices(Seat seat) {
    /** In 2.x: whether cards go on top of a library one by one, so that the last ends on top. Null in 1.6, where the first does. */
    private static final Method LAST_ON_TOP =
            Reflect.hidden(PlayerController.class, "orderedMoveToTopOfLibrary", ZoneType.class, SpellAbility.class);

    /** One card of each kind. */
    CardCollection ofEachKind(Map<String, CardCollection> valid, SpellAbility source, String title, boolean optional) {
        CardCollection result = new CardCollection();
        valid.forEach((kind, cards) -> {
            CardCollection options = new CardCollection(cards);
            options.removeAll(result);
            Card chosen = seat.questions.entity(source, title + " (" + kind + ")", options, optional, () -> seat.guess(null));
            if (chosen != null) {
                result.add(chosen);
            }
        });
        return result;
    }

    /** "Discard two cards unless you discard a land": the words are types, in later versions restrictions. */
    CardCollection discardUnless(int count, CardCollectionView hand, String[] words, boolean types, SpellAbility source,
            Supplier<CardCollectionView> ai) {
        CardCollection typed = new CardCollection();
        for (Card card : hand) {
            for (String word : words) {
                if (types ? card.getType().hasStringType(word)
                        : card.isValid(word, source.getActivatingPlayer(), source.getHostCard(), source)) {
                    typed.add(card);
                }
            }
        }
        String type = String.join(",", words);
        if (!typed.isEmpty() && seat.questions.confirm(source, "Discard one " + type + " card instead of " + count,
                () -> seat.guess(true))) {
            return seat.questions.cards("Discard " + type, source, typed, 1, 1, ai);
        }
        return seat.questions.cards("Discard", source, hand, count, count, ai);
    }

    /** In which order cards move to a zone. Exile has none, and that of graveyards matters to few cards. */
    CardCollectionView order(CardCollectionView cards, ZoneType zone, SpellAbility source, Supplier<CardCollectionView> ai) {
        boolean matters = zone != ZoneType.Exile && (zone != ZoneType.Graveyard || seat.table.orderedGraveyards);
        String message = "Order of the cards" + (zone == ZoneType.Library ? ", the first on top" : "");
        if (cards.size() < 2 || !matters) {
            return seat.think(ai);
        }
        boolean last = LAST_ON_TOP != null && (Boolean) Reflect.call(LAST_ON_TOP, seat, zone, source);
        CardCollection ordered = new CardCollection(seat.questions.order(source, message, cards, seat.questions.things(),
                () -> last ? reversed(ai.get()) : ai.get()));
        return last ? reversed(ordered) : ordered;
    }

    private static CardCollection reversed(CardCollectionView cards) {
        return new CardCollection(Lists.reverse(new CardCollection(cards)));
    }

    /** The names in a pile; a pile that lies face down is only counted. */
    static String pile(CardCollectionView pile, boolean faceUp) {
        return !faceUp ? pile.size() + " cards"
                : pile.isEmpty() ? "nothing" : String.join(", ", Iterables.transform(pile, Card::getName));
    }

    // ---- colours

    byte color(String message, SpellAbility source, ColorSet colors, boolean colorless, Supplier<Byte> ai) {
        List<Byte> options = bits(colors);
        if (colorless || options.isEmpty()) {
            options.add((byte) 0);
        }
        return seat.questions.one("choose_color", source, message, options, false, (json, color) -> json.put("kind", "color")
                .put("name", color == 0 ? "colorless" : MagicColor.toLongString(color)), ai);
    }

    /** Mana in any combination of colours. */
    Map<Byte, Integer> mana(SpellAbility source, ColorSet colors, int amount, boolean different,
            Supplier<Map<Byte, Integer>> ai) {
        Map<Byte, Integer> hint = seat.remote ? null : seat.think(ai);
        List<Byte> hints = new ArrayList<>();
        if (hint != null) {
            hint.forEach((color, count) -> hints.addAll(Collections.nCopies(count, color)));
        }
        Map<Byte, Integer> result = new LinkedHashMap<>();
        ColorSet left = colors;
        for (int i = 0; i < amount; i++) {
            byte first = i < hints.size() ? hints.get(i) : bits(left).get(0);
            byte chosen = color("Mana " + (i + 1) + " of " + amount, source, left, false, () -> first);
            result.merge(chosen, 1, Integer::sum);
            left = different ? ColorSet.fromMask(left.getColor() & ~chosen) : left;
        }
        return hint == null ? result : hint;
    }

    static List<String> names(ColorSet colors) {
        return bits(colors).stream().map(MagicColor::toLongString).toList();
    }

    private static List<Byte> bits(ColorSet colors) {
        List<Byte> result = new ArrayList<>();
        for (int bit = 1; bit < 32; bit <<= 1) {
            if ((colors.getColor() & bit) != 0) {
                result.add((byte) bit);
            }
        }
        return result;
    }

    // ---- types

    /** Creature types and the like: those on cards that this seat owns or sees come into question, 250 do not. */
    String type(String kind, SpellAbility source, Collection<?> valid, Collection<?> invalid, boolean optional,
            Supplier<String> ai) {
        Set<String> options = new TreeSet<>();
        for (Card card : Iterables.concat(seat.owner().getAllCards(), seat.getGame().getCardsIn(ZoneType.Battlefield))) {
            if (!card.isFaceDown()) {
                options.addAll(List.of(card.getType().toString().split("[ -]+")));
            }
        }
        options.removeIf(type -> !valid.contains(type) || invalid.contains(type));
        return options.isEmpty() ? seat.left("choose some type", ai) : seat.questions.one("choose_ability", source,
                "Choose a " + kind + " type", options, optional, Questions.texts(text -> text), ai);
    }

    // ---- names of cards

    /** Of some cards, or of those in the seat's deck and in public zones; thousands of others do not come into question. */
    String name(SpellAbility source, String message, List<ICardFace> faces, Predicate<ICardFace> valid, Supplier<String> ai) {
        Set<String> options = new TreeSet<>();
        if (faces != null) {
            faces.forEach(face -> options.add(face.getName()));
        } else {
            List<String> seen = new ArrayList<>();
            seat.owner().getRegisteredPlayer().getDeck().getAllCardsInASinglePool()
                    .forEach(entry -> seen.add(entry.getKey().getName()));
            seat.getGame().getCardsIn(List.of(ZoneType.Battlefield, ZoneType.Graveyard, ZoneType.Exile, ZoneType.Stack))
                    .forEach(card -> seen.add(seat.view.name(card)));
            for (String name : seen) {
                ICardFace face = StaticData.instance().getCommonCards().getFaceByName(name);
                if (face != null && valid.test(face)) {
                    options.add(name);
                }
            }
        }
        return options.isEmpty() ? seat.left("choose card name", ai) : seat.questions.one("choose_ability", source, message,
                options, false, Questions.texts(text -> text), ai);
    }

    // ---- reveals

    void reveal(DelayedReveal delayed) {
        if (delayed != null && !seat.quiet()) {
            reveal(delayed.getCards(), delayed.getZone(), delayed.getOwner(), delayed.getMessagePrefix());
        }
    }

    /** A player, or the one whom a view shows. */
    static Player player(Game game, Object player) {
        return player instanceof PlayerView view ? game.getPlayer(view) : (Player) player;
    }

    /** Cards or their views, of a player or its view: the engine has both. */
    void reveal(Iterable<?> things, Object zone, Object owner, String prefix) {
        Game game = seat.getGame();
        List<Card> cards = new ArrayList<>();
        for (Object thing : things) {
            Card card = thing instanceof CardView view ? game.findById(view.getId()) : (Card) thing;
            if (card != null) {
                cards.add(card);
            }
        }
        if (seat.thinks() || cards.isEmpty()) {
            return;
        }
        Player player = player(game, owner);
        seat.questions.showing(cards, () -> {
            seat.table.tell(seat, "reveal", json -> json.put("owner", seat.table.seatOf(player))
                    .put("zone", zone instanceof Collection<?> zones ? Answers.join(zones) : String.valueOf(zone))
                    .put("message", Json.oneLine(prefix)).list("cards", cards, card -> seat.view.card(json, card, false)));
            return null;
        });
    }
}
