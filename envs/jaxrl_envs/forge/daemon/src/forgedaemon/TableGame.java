// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.game.*;
import forge.game.card.*;
import forge.game.keyword.KeywordInterface;
import forge.game.player.Player;
import forge.game.player.RegisteredPlayer;
import forge.game.zone.PlayerZone;
import forge.util.Visitor;
import java.lang.invoke.*;
import java.lang.reflect.*;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A game that leaves out cards without static abilities when the engine collects static abilities, and likewise with
 * replacement effects and triggers. The engine asks every card in every zone, a hundred times a turn, and most have none.
 */
final class TableGame extends Game {
    private static final int STATIC = 1;
    private static final int REPLACEMENT = 2;
    private static final int TRIGGER = 4;
    private static final Map<Class<?>, Collector> COLLECTORS = new ConcurrentHashMap<>();
    private static final MethodHandle CHANGES = table("getChangedCardTraits");
    private static final MethodHandle TEXT_CHANGES = table("getChangedCardTraitsByText");

    /** What the printed (or copied) abilities of a card are: bits of the three kinds, for its current face. */
    private final Map<Card, Kinds> kinds = new IdentityHashMap<>();

    private record Kinds(Object face, int bits) {}

    TableGame(Iterable<RegisteredPlayer> players, GameRules rules, Match match) {
        super(players, rules, match);
    }

    @Override
    public void forEachCardInGame(Visitor<Card> visitor) {
        Collector collector = COLLECTORS.computeIfAbsent(visitor.getClass(), Collector::new);
        if (collector.kind == 0) {
            super.forEachCardInGame(visitor);
            return;
        }
        CardCollectionView copies = collector.copies(visitor);
        super.forEachCardInGame(new Visitor<Card>() {
            @Override
            public boolean visit(Card card) {
                return !copies.contains(card) && hasNone(card, collector.kind) || visitor.visit(card);
            }
        });
    }

    /** What one of the engine's visitors collects. */
    private static final class Collector {
        final int kind;
        private Field copies;

        Collector(Class<?> visitor) {
            String name = visitor.getName();
            kind = CHANGES == null || TEXT_CHANGES == null ? 0 : name.startsWith("forge.game.GameAction$") ? STATIC
                    : name.startsWith("forge.game.replacement.ReplacementHandler$") ? REPLACEMENT
                    : name.startsWith("forge.game.trigger.TriggerHandler$") ? TRIGGER : 0;
            for (Field field : visitor.getDeclaredFields()) {
                if (CardCollectionView.class.isAssignableFrom(field.getType())) {
                    copies = field;
                    field.setAccessible(true);
                }
            }
        }

        /** Cards in whose place the visitor looks at a changed copy: as they will be on the battlefield. */
        CardCollectionView copies(Visitor<Card> visitor) {
            Object value = copies == null ? null : Reflect.get(copies, visitor);
            return value == null ? CardCollection.EMPTY : (CardCollectionView) value;
        }
    }

    /** True only if a card's list of that kind is empty: nothing printed, nothing changed, nothing from keywords. */
    private boolean hasNone(Card card, int kind) {
        if (card.hasCounters() || kind == STATIC && !card.getStaticCommandList().isEmpty() || isChanged(card)) {
            return false;
        }
        for (KeywordInterface keyword : card.getUnhiddenKeywords()) {
            Collection<?> given = kind == STATIC ? keyword.getStaticAbilities()
                    : kind == REPLACEMENT ? keyword.getReplacements() : keyword.getTriggers();
            if (!given.isEmpty()) {
                return false;
            }
        }
        return (printed(card) & kind) == 0;
    }

    /** Whether effects have given abilities to a card or taken some. */
    private static boolean isChanged(Card card) {
        try {
            return !((com.google.common.collect.Table<?, ?, ?>) CHANGES.invokeExact(card)).isEmpty()
                    || !((com.google.common.collect.Table<?, ?, ?>) TEXT_CHANGES.invokeExact(card)).isEmpty();
        } catch (Throwable problem) {
            throw new IllegalStateException(problem);
        }
    }

    /** A method of Card that returns one of its tables of changes; null in a Forge that has it otherwise. */
    private static MethodHandle table(String name) {
        return Reflect.handle(() -> MethodHandles.publicLookup().unreflect(Card.class.getMethod(name))
                .asType(MethodType.methodType(com.google.common.collect.Table.class, Card.class)));
    }

    private int printed(Card card) {
        Kinds known = kinds.get(card);
        if (known == null || known.face != card.getCurrentState()) {
            int bits = (card.getStaticAbilities().isEmpty() ? 0 : STATIC) | (card.getTriggers().isEmpty() ? 0 : TRIGGER)
                    | (card.getReplacementEffects().isEmpty() ? 0 : REPLACEMENT);
            known = new Kinds(card.getCurrentState(), bits);
            kinds.put(card, known);
        }
        return known.bits;
    }

    /** A player without what Forge's user interface wants to know of zones; that was a sixth of the computing. */
    static final class TablePlayer extends Player {
        private final Table table;

        TablePlayer(String name, Game game, int id, Table table) {
            super(name, game, id);
            this.table = table;
        }

        public void updateZoneForView(PlayerZone zone) {
            // no one looks at it
        }

        /**
         * The cards that can be played from elsewhere, as a zone of their own. Forge's AI looks at it; a check of state-based
         * effects (which freezes the stack) walks through all zones, this one too, but meets these cards in their own zones.
         */
        public CardCollectionView getCardsActivableInExternalZones(boolean commandZone) {
            try {
                return table.noAi() && getGame().getStack().isFrozen() ? CardCollection.EMPTY
                        : (CardCollectionView) EXTERNAL.invokeExact(this, commandZone);
            } catch (Throwable problem) {
                throw Reflect.unchecked(problem);
            }
        }

        /** The engine's own; null in versions that spell it otherwise, which call neither. */
        private static final MethodHandle EXTERNAL = Reflect.handle(
                () -> MethodHandles.lookup().findSpecial(Player.class, "getCardsActivableInExternalZones",
                MethodType.methodType(CardCollectionView.class, boolean.class), TablePlayer.class));
    }
}
