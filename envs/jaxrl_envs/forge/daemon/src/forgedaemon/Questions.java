// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Lists;
import forge.game.GameObject;
import forge.game.card.Card;
import forge.game.card.CardCollection;
import forge.game.spellability.SpellAbility;
import java.util.*;
import java.util.function.*;
import org.apache.commons.lang3.tuple.ImmutablePair;

/** The forms of questions that a seat is asked. Where it is not to be asked, Forge's AI decides. */
record Questions(Seat seat) {
    /** Writes an option that is a text. */
    static <T> BiConsumer<Json, T> texts(Function<T, String> text) {
        return (json, item) -> {
            json.put("kind", "text").put("description", Json.oneLine(text.apply(item)));
            if (item instanceof SpellAbility ability) {
                Parts.write(json, ability);
            }
        };
    }

    <T extends GameObject> BiConsumer<Json, T> things() {
        return seat.view::option;
    }

    static <T> void options(Json json, List<T> options, BiConsumer<Json, T> writer) {
        json.<T>numbered("options", options, item -> writer.accept(json, item));
    }

    private static <T> List<T> list(Iterable<? extends T> items) {
        return items == null ? null : Lists.newArrayList(items);
    }

    /** Asks with cards shown that the seat would not see otherwise. */
    <T> T showing(Iterable<?> things, Supplier<T> question) {
        for (Object thing : things) {
            if (thing instanceof Card card) {
                seat.shown.add(card.getId());
            }
        }
        try {
            return question.get();
        } finally {
            seat.shown.clear();
            seat.view.knowledge.see(things);
        }
    }

    // ---- forms

    /** A set of options, between min and max of them, in the order of the answer. */
    <T> List<T> set(String type, SpellAbility source, Consumer<Json> extra, Iterable<? extends T> things, int min, int max,
            BiConsumer<Json, T> writer, Supplier<? extends Iterable<? extends T>> ai) {
        if (seat.quiet()) {
            return list(ai.get());
        }
        List<T> options = list(things);
        int most = Math.min(max, options.size());
        int least = Math.min(min, most);
        if (most <= 0 || seat.lazy() && least == options.size()) {
            return new ArrayList<>(options.subList(0, Math.max(0, most)));
        }
        List<T> chosen = showing(options, () -> seat.<List<T>>ask(type, json -> {
            seat.view.source(json, source);
            extra.accept(json);
            json.put("min", least).put("max", most);
            options(json, options, writer);
        }, Answers.first(least), text -> Answers.select(options, Answers.indices(text, options.size(), least, most, false)),
                () -> list(ai.get()), choice -> Answers.said(choice, options)));
        return chosen == null ? new ArrayList<>() : chosen;
    }

    <T extends GameObject> List<T> some(String text, SpellAbility source, Iterable<? extends T> options, int min, int max,
            Supplier<? extends Iterable<? extends T>> ai) {
        return set("choose_cards", source, json -> json.put("message", Json.oneLine(text)), options, min, max, things(), ai);
    }

    CardCollection cards(String text, SpellAbility source, Iterable<Card> options, int min, int max,
            Supplier<? extends Iterable<Card>> ai) {
        List<Card> chosen = some(text, source, options, min, max, ai);
        return chosen == null ? null : new CardCollection(chosen);
    }

    <T> List<T> modes(SpellAbility source, String message, Iterable<T> options, int min, int max, Function<T, String> text,
            Supplier<List<T>> ai) {
        return set("choose_mode", source, json -> json.put("message", Json.oneLine(message)).put("repeat", false), options, min,
                max, texts(text), ai);
    }

    List<GameObject> targets(SpellAbility source, List<GameObject> options, int min, int max, Supplier<List<GameObject>> ai) {
        return set("choose_targets", source, json -> { }, options, min, max, things(), ai);
    }

    /** One option, or null if that is allowed. */
    <T> T one(String type, SpellAbility source, String message, Iterable<? extends T> things, boolean optional, BiConsumer<Json, T> writer,
            Supplier<? extends T> ai) {
        if (seat.quiet()) {
            return ai.get();
        }
        List<T> options = list(things);
        if (options.isEmpty() || seat.lazy() && !optional && options.size() == 1) {
            return options.isEmpty() ? null : options.get(0);
        }
        return showing(options, () -> seat.<T>ask(type, json -> {
            seat.view.source(json, source);
            if (message != null) {
                json.put("message", Json.oneLine(message));
            }
            if (type.equals("choose_entity")) {
                json.put("optional", optional);
            }
            options(json, options, writer);
        }, optional ? "-1" : "0", text -> {
            int at = Answers.index(text, optional ? -1 : 0, options.size());
            return at < 0 ? null : options.get(at);
        }, ai::get, chosen -> chosen == null ? optional ? "-1" : null : Answers.said(List.of(chosen), options)));
    }

    <T extends GameObject> T entity(SpellAbility source, String message, Iterable<T> options, boolean optional, Supplier<T> ai) {
        return one("choose_entity", source, message, options, optional, things(), ai);
    }

    <T> T ability(SpellAbility source, String message, Iterable<T> options, Function<T, String> text, Supplier<T> ai) {
        return one("choose_ability", source, message, options, false, texts(text), ai);
    }

    boolean confirm(SpellAbility source, String message, Supplier<Boolean> ai) {
        return yes("confirm_action", source, message, ai);
    }

    boolean yes(String type, SpellAbility source, String message, Supplier<Boolean> ai) {
        return seat.quiet() ? ai.get() : seat.<Boolean>ask(type, json -> {
            seat.view.source(json, source);
            json.put("message", Json.oneLine(message));
        }, "n", Answers::yesOrNo, ai, choice -> choice ? "y" : "n");
    }

    int number(SpellAbility source, String name, int min, int max, Supplier<Integer> ai) {
        return number(json -> seat.view.source(json, source), name, min, max, ai);
    }

    int number(Consumer<Json> about, String name, int min, int max, Supplier<Integer> ai) {
        if (seat.quiet()) {
            return ai.get();
        }
        if (max <= min && seat.lazy()) {
            return min;
        }
        int most = Math.max(min, max);
        return seat.<Integer>ask("announce_value", json -> {
            about.accept(json);
            json.put("name", Json.oneLine(name)).put("min", min).put("max", most);
        }, String.valueOf(min), text -> Answers.index(text, min, most + 1), ai,
                choice -> choice == null || choice < min || choice > most ? null : String.valueOf(choice));
    }

    <T> List<T> order(SpellAbility source, String message, Iterable<? extends T> things, BiConsumer<Json, T> writer,
            Supplier<? extends Iterable<? extends T>> ai) {
        List<T> options = list(things);
        int size = options.size();
        return showing(options, () -> seat.<List<T>>ask("order", json -> {
            seat.view.source(json, source);
            json.put("message", Json.oneLine(message));
            options(json, options, writer);
        }, Answers.first(size), text -> Answers.select(options, Answers.indices(text, size, size, size, false)),
                () -> list(ai.get()), chosen -> Answers.said(chosen, options)));
    }

    /** Which cards of the top of a library go down: the rest, and those. */
    ImmutablePair<CardCollection, CardCollection> arrange(CardCollection cards, String bottom,
            Supplier<ImmutablePair<CardCollection, CardCollection>> ai) {
        if (seat.quiet()) {
            return ai.get();
        }
        List<Card> options = list(cards);
        return showing(options, () -> seat.<ImmutablePair<CardCollection, CardCollection>>ask("scry", json -> {
            options(json, options, things());
            json.put("bottom", bottom);
        }, "", text -> {
            List<Card> low = Answers.select(options, Answers.indices(text, options.size(), 0, options.size(), false));
            CardCollection high = new CardCollection(options);
            high.removeAll(low);
            return ImmutablePair.of(high, new CardCollection(low));
        }, ai, pair -> Answers.said(pair.getRight(), options)));
    }
}
