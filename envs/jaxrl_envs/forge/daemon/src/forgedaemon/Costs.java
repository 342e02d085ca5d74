// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Iterables;
import com.google.common.collect.Lists;
import com.google.common.collect.Multiset;
import forge.ai.AiCostDecision;
import forge.game.GameEntityCounterTable;
import forge.game.card.*;
import forge.game.cost.*;
import forge.game.spellability.*;
import forge.game.zone.ZoneType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.*;
import java.util.function.BiPredicate;
import java.util.function.Supplier;

/** With which cards a seat pays the parts of a cost; what is not overridden here leaves no choice, or Bridge counts it. */
class Costs extends AiCostDecision {
    private static final Method SACRIFICE = Reflect.method(Card.class, "canBeSacrificedBy", 2, 1);
    private static final Method CAN_TAP = Reflect.method(Card.class, "canTap", 0);
    private static final Method CAN_CREW = Reflect.method(Card.class, "canCrew", 0);
    private static final Method CREWS = Reflect.method(SpellAbility.class, "isCrew", 0);
    private static final Method TOTAL_POWER = Reflect.method(CardLists.class, "getTotalPower", 3, 2);

    final Seat seat;
    private final SpellAbility ability;

    Costs(Seat seat, SpellAbility ability, boolean effect) {
        super(seat.getPlayer(), ability, effect);
        this.seat = seat;
        this.ability = ability;
    }

    private CardCollection valid(Iterable<Card> cards, String type) {
        return CardLists.getValidCards(cards, type.split(";"), player, ability.getHostCard(), ability);
    }

    private CardCollection inPlay(CostPart cost) {
        return valid(player.getCardsIn(ZoneType.Battlefield), cost.getType());
    }

    /** As many of some cards as a part of a cost requires; null if there are too few. */
    private PaymentDecision choose(CostPart cost, CardCollectionView options, Supplier<PaymentDecision> ai) {
        int count = cost.getAbilityAmount(ability);
        return options.size() < count ? null : PaymentDecision.card(some(cost, options, count, count, ai));
    }

    /** Of one player's cards, where they may be of any player. */
    private PaymentDecision choose(CostPart cost, boolean anyone, CardCollection options, Supplier<PaymentDecision> ai) {
        return anyone ? matching(cost, options, (one, other) -> one.getOwner() == other.getOwner()) : choose(cost, options, ai);
    }

    private CardCollectionView from(boolean anyone, Iterable<ZoneType> zones) {
        return anyone ? player.getGame().getCardsIn(zones) : player.getCardsIn(zones);
    }

    /** Permanents of the seat: for parts whose visits Bridge writes. */
    PaymentDecision own(CostPart cost, Supplier<PaymentDecision> ai) {
        return cost.payCostFromSource() ? ai.get() : choose(cost, inPlay(cost), ai);
    }

    private CardCollection some(CostPart cost, CardCollectionView options, int min, int max, Supplier<PaymentDecision> ai) {
        return seat.questions.cards(String.valueOf(cost), ability, options, min, max, () -> {
            PaymentDecision hint = ai.get();
            return hint == null ? new CardCollection(Iterables.limit(options, min))
                    : !hint.cards.isEmpty() || hint.counterTable == null ? hint.cards
                    : new CardCollection(Iterables.filter(hint.counterTable.columnKeySet(), Card.class));
        });
    }

    /** One card after the other, each of which narrows the choice of the next. */
    private PaymentDecision matching(CostPart cost, CardCollection options, BiPredicate<Card, Card> fits) {
        CardCollection chosen = new CardCollection();
        CardCollection left = options;
        for (int missing = cost.getAbilityAmount(ability); missing > 0; missing--) {
            int more = missing - 1;
            CardCollection from = left;
            CardCollection next = CardLists.filter(from, card -> from.stream().filter(other -> other != card
                    && fits.test(card, other)).count() >= more);
            Card card = next.isEmpty() ? null
                    : seat.questions.entity(ability, String.valueOf(cost), next, false, () -> seat.guess(next.get(0)));
            if (card == null) {
                return null;
            }
            chosen.add(card);
            left = CardLists.filter(from, other -> other != card && fits.test(card, other));
        }
        return PaymentDecision.card(chosen);
    }

    @Override
    public PaymentDecision visit(CostSacrifice cost) {
        if (cost.payCostFromSource() || cost.getType().equals("OriginalHost")) {
            return super.visit(cost);
        }
        CardCollection options = CardLists.filter(inPlay(cost),
                card -> (Boolean) Reflect.fit(SACRIFICE, card, ability, isEffect()));
        return cost.getAmount().equals("All") ? PaymentDecision.card(options) : choose(cost, options, () -> super.visit(cost));
    }

    @Override
    public PaymentDecision visit(CostDiscard cost) {
        String type = cost.getType();
        CardCollection hand = new CardCollection(player.getCardsIn(ZoneType.Hand));
        if (cost.payCostFromSource() || Set.of("Hand", "Random", "LastDrawn").contains(type)) {
            return super.visit(cost);
        }
        hand.remove(ability.getHostCard());
        if (type.contains("DifferentNames")) {
            return matching(cost, hand, (one, other) -> !one.getName().equals(other.getName()));
        }
        if (type.contains("+WithSameName")) {
            return matching(cost, valid(hand, type.replace("+WithSameName", "")),
                    (one, other) -> one.getName().equals(other.getName()));
        }
        return choose(cost, valid(hand, type), () -> super.visit(cost));
    }

    /** Whose cards: 0 all of one player, 1 the payer's, -1 anybody's. 1.6 has a flag instead, true for 0. */
    private static int whose(CostExile cost) {
        Field same = Reflect.field(CostExile.class, "sameZone");
        return same == null ? (Integer) Reflect.get(Reflect.field(CostExile.class, "zoneRestriction"), cost)
                : (Boolean) Reflect.get(same, cost) ? 0 : 1;
    }

    @Override
    @SuppressWarnings("unchecked")
    public PaymentDecision visit(CostExile cost) {
        String type = cost.getType();
        if (cost.payCostFromSource() || type.equals("All") || String.valueOf(cost.getFrom()).contains("Library")) {
            return super.visit(cost);
        }
        if (type.contains("+with")) {
            return seat.left("cost exile", () -> super.visit(cost)); // of later versions
        }
        boolean top = type.contains("FromTopGrave");
        int whose = whose(cost);
        Object zones = cost.getFrom();
        CardCollection options = valid(from(whose != 1, zones instanceof ZoneType zone ? List.of(zone)
                : (Iterable<ZoneType>) zones), type.replace("FromTopGrave", ""));
        options.remove(ability.getHostCard());
        if (top) {
            List<Card> cards = Lists.reverse(options);
            return PaymentDecision.card(Iterables.limit(cards, cost.getAbilityAmount(ability)));
        }
        return choose(cost, whose == 0, options, () -> super.visit(cost));
    }

    @Override
    public PaymentDecision visit(CostExileFromStack cost) {
        PaymentDecision found = super.visit(cost);
        List<SpellAbility> spells = found == null ? List.of() : found.sp;
        int count = cost.getType().equals("All") ? spells.size() : cost.getAbilityAmount(ability);
        return spells.size() < count ? null : PaymentDecision.spellabilities(seat.questions.set("choose_cards", ability,
                json -> json.put("message", String.valueOf(cost)), spells, count, count, seat.questions.things(),
                () -> seat.guess(spells)));
    }

    @Override
    public PaymentDecision visit(CostExiledMoveToGrave cost) {
        return choose(cost, valid(player.getGame().getCardsIn(ZoneType.Exile), cost.getType()), () -> super.visit(cost));
    }

    @Override
    public PaymentDecision visit(CostPutCardToLib cost) {
        return cost.payCostFromSource() ? super.visit(cost) : choose(cost, cost.isSameZone(),
                valid(from(cost.isSameZone(), List.of(cost.getFrom())), cost.getType()), () -> super.visit(cost));
    }

    @Override
    public PaymentDecision visit(CostPutCounter cost) {
        if (cost.payCostFromSource()) {
            return super.visit(cost);
        }
        CardCollection options = CardLists.filter(valid(player.getGame().getCardsIn(ZoneType.Battlefield), cost.getType()),
                card -> card.canReceiveCounters(cost.getCounter()));
        return options.isEmpty() ? null : PaymentDecision.card(some(cost, options, 1, 1, () -> super.visit(cost)));
    }

    @Override
    public PaymentDecision visit(CostRemoveCounter cost) {
        boolean any = cost.counter == null; // in 2.x
        if (cost.payCostFromSource() && !any || cost.getType().equals("OriginalHost") || cost.getAmount().equals("All")) {
            return super.visit(cost);
        }
        int count = cost.getAbilityAmount(ability);
        CardCollection cards = cost.payCostFromSource() ? new CardCollection(ability.getHostCard())
                : valid(player.getCardsIn(cost.zone), cost.getType());
        CardCollection options = CardLists.filter(cards, card -> count <= (!any ? card.getCounters(cost.counter)
                : kinds(new GameEntityCounterTable(), card, null).stream().mapToInt(card::getCounters).sum()));
        if (options.isEmpty()) {
            return null;
        }
        Card card = some(cost, options, 1, 1, () -> super.visit(cost)).get(0);
        GameEntityCounterTable table = new GameEntityCounterTable();
        for (int left = count; left > 0; left--) {
            table.put(null, card, any ? kind(table, card, null) : cost.counter, 1);
        }
        PaymentDecision paid = PaymentDecision.counters(table); // which 2.x reads, 1.6 the card and the number
        paid.cards.add(card);
        paid.c = count;
        return paid;
    }

    @Override
    public PaymentDecision visit(CostRemoveAnyCounter cost) {
        GameEntityCounterTable table = new GameEntityCounterTable();
        for (int left = cost.getAbilityAmount(ability); left > 0; left--) {
            CardCollection options = CardLists.filter(inPlay(cost), card -> !kinds(table, card, cost.counter).isEmpty());
            Card card = options.isEmpty() ? null
                    : seat.questions.entity(ability, String.valueOf(cost), options, false, () -> seat.guess(options.get(0)));
            if (card == null) {
                return null;
            }
            table.put(null, card, kind(table, card, cost.counter), 1);
        }
        return table.isEmpty() ? null : PaymentDecision.counters(table);
    }

    private CounterType kind(GameEntityCounterTable table, Card card, CounterType only) {
        List<CounterType> kinds = kinds(table, card, only);
        return seat.questions.ability(ability, "Remove a counter", kinds, String::valueOf, () -> seat.guess(kinds.get(0)));
    }

    @SuppressWarnings("unchecked")
    private static List<CounterType> kinds(GameEntityCounterTable table, Card card, CounterType only) {
        Object left = table.filterToRemove(card); // how many of each kind
        List<CounterType> kinds = new ArrayList<>((Collection<CounterType>) (left instanceof Map<?, ?> map ? map.keySet()
                : ((Multiset<?>) left).elementSet()));
        kinds.removeIf(kind -> only != null && !only.equals(kind));
        kinds.sort(Comparator.comparing(String::valueOf));
        return kinds;
    }

    @Override
    public PaymentDecision visit(CostReveal cost) {
        String type = cost.getType();
        if (cost.payCostFromSource() || type.equals("Hand")) {
            return super.visit(cost);
        }
        CardCollection hand = new CardCollection(player.getCardsIn(cost.getRevealFrom()));
        if (ability.isSpell()) {
            hand.remove(ability.getHostCard());
        }
        return type.equals("SameColor") ? matching(cost, hand, Card::sharesColorWith)
                : choose(cost, valid(hand, type), () -> super.visit(cost));
    }

    @Override
    public PaymentDecision visit(CostTapType cost) {
        String type = cost.getType();
        boolean kin = type.contains(".sharesCreatureTypeWith");
        int power = type.contains("+withTotalPowerGE") ? Integer.parseInt(type.split("withTotalPowerGE")[1]) : -1;
        CardCollection options = CardLists.filter(valid(player.getCardsIn(ZoneType.Battlefield),
                type.replace(".sharesCreatureTypeWith", "").replace("+withTotalPowerGE" + power, "")),
                card -> card.isUntapped() && (CAN_TAP == null || (Boolean) Reflect.call(CAN_TAP, card))
                && (cost.canTapSource || card != ability.getHostCard()) && !(crews() && cannotCrew(card)));
        if (kin) {
            return matching(cost, options, Card::sharesCreatureTypeWith);
        }
        return power < 0 ? choose(cost, options, () -> super.visit(cost)) : crew(cost, options, power);
    }

    /** Any number of creatures; too little power is made up for with the next ones. */
    private PaymentDecision crew(CostTapType cost, CardCollection options, int power) {
        CardCollection chosen = some(cost, options, 1, options.size(), () -> super.visit(cost));
        for (Card card : options) {
            if (power(chosen) < power) {
                chosen.add(card);
            }
        }
        return power(chosen) < power ? null : PaymentDecision.card(chosen);
    }

    private static boolean cannotCrew(Card card) {
        return CAN_CREW != null ? !(Boolean) Reflect.call(CAN_CREW, card) : card.hasKeyword("CARDNAME can't crew Vehicles.");
    }

    private boolean crews() {
        return CREWS == null ? ability.hasParam("Crew") : (Boolean) Reflect.call(CREWS, ability);
    }

    private int power(CardCollection cards) {
        return (Integer) Reflect.fit(TOTAL_POWER, null, cards, true, crews(), ability);
    }

    @Override
    public PaymentDecision visit(CostUntapType cost) {
        CardCollection options = CardLists.filter(valid(player.getGame().getCardsIn(ZoneType.Battlefield), cost.getType()),
                card -> card.isTapped() && (cost.canUntapSource || card != ability.getHostCard()));
        return choose(cost, options, () -> super.visit(cost));
    }
}
