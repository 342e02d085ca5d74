// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Iterables;
import forge.ai.ComputerUtilMana;
import forge.card.mana.ManaCost;
import forge.card.mana.ManaCostShard;
import forge.game.card.*;
import forge.game.cost.CostPayment;
import forge.game.keyword.Keyword;
import forge.game.spellability.SpellAbility;
import forge.game.zone.Zone;
import forge.game.zone.ZoneType;
import java.lang.reflect.Method;
import java.util.*;
import java.util.function.Supplier;

/** Pays costs: the seat is asked for all but the sources of mana, which Forge's AI takes. */
final class Paying {
    private static final Method HELPING = Reflect.method(ComputerUtilMana.class, "getConvokeOrImproviseFromList", 3, 4);

    /** One payment: what was chosen so far. What was not yet is null or absent: a trial takes all that there is for it. */
    private static final class Payment {
        final SpellAbility ability;
        /** The graveyard before cards were exiled with delve, and these. */
        CardCollection graveyard;
        CardCollection delved;
        /** Who helps with which symbol, for convoke and (true) for improvise. */
        final Map<Boolean, Map<Card, ManaCostShard>> taps = new TreeMap<>();

        Payment(SpellAbility ability) {
            this.ability = ability;
        }
    }

    private final Seat seat;
    /** Of which the seat is asked; null: nothing is paid, by Forge's AI, or only in what that tries during a question. */
    private Payment current;
    /** As which it is only tried whether something can be paid; null: no trial. */
    private Payment trial;
    private final List<Card> helped = new ArrayList<>();

    Paying(Seat seat) {
        this.seat = seat;
    }

    /** False: not paid in full, `payment` knows what was; who helped is untapped again, and what was delved put back. */
    boolean pay(CostPayment payment, boolean effect) {
        Payment outer = current;
        Payment own = new Payment(payment.getAbility());
        current = seat.quiet() ? null : own;
        try {
            boolean paid = payment.payCost(Bridge.make.costs(seat, own.ability, effect));
            if (!paid) {
                own.taps.values().forEach(taps -> taps.keySet().forEach(card -> card.setTapped(false)));
                putBack(own);
            }
            return paid;
        } finally {
            current = outer;
        }
    }

    /** Forge exiles with delve before it pays the rest, and its AI never takes it back. */
    private void putBack(Payment payment) {
        if (payment.delved == null || payment.delved.isEmpty()) {
            return;
        }
        Zone graveyard = seat.getPlayer().getZone(ZoneType.Graveyard);
        CardCollection cards = CardLists.filter(payment.graveyard,
                card -> payment.delved.contains(card) || graveyard.contains(card));
        cards.addAll(graveyard.getCards());
        for (Card card : payment.delved) {
            Card exiled = seat.getGame().getCardState(card);
            exiled.getZone().remove(exiled);
        }
        graveyard.setCards(cards);
    }

    /** Tries something that pays nothing, with all delve, convoke and improvise that there is. */
    boolean tries(Supplier<Boolean> attempt) {
        trial = trial == null ? new Payment(null) : trial;
        try {
            return seat.think(attempt);
        } finally {
            trial = null;
            helped.forEach(card -> card.setTapped(false));
            helped.clear();
        }
    }

    private boolean suffices(Payment payment) {
        trial = payment;
        try {
            return Moves.canPayMana(payment.ability, seat.getPlayer());
        } finally {
            trial = null;
        }
    }

    /** A question in the midst of a payment: what Forge's AI tries meanwhile is no part of it. */
    private CardCollection ask(String message, CardCollectionView options, int min, int max, Supplier<CardCollectionView> ai) {
        Payment payment = current;
        current = null;
        try {
            return seat.awake(() -> seat.questions.cards(message, payment.ability, options, min, max, ai));
        } finally {
            current = payment;
        }
    }

    /** Cards of a graveyard that are exiled instead of generic mana. */
    CardCollectionView delved(int generic, CardCollection graveyard, Supplier<CardCollectionView> ai) {
        int most = Math.min(generic, graveyard.size());
        if (trial != null) {
            return trial.delved != null ? trial.delved : new CardCollection(graveyard.subList(0, most));
        }
        if (current == null || current.delved != null || most == 0
                || !current.ability.getHostCard().hasKeyword(Keyword.DELVE)) {
            return ai.get();
        }
        int least = -1;
        do {
            current.delved = new CardCollection(graveyard.subList(0, ++least));
        } while (least < most && !suffices(current));
        current.graveyard = new CardCollection(graveyard);
        current.delved = ask("Exile with delve", graveyard, least, most, ai);
        return current.delved;
    }

    /** Whether it is only tried now if something can be paid for. */
    boolean trying() {
        return trial != null;
    }

    /** Creatures or artifacts that are tapped for a symbol each. Those that are missing are added, and told. */
    Map<Card, ManaCostShard> tapped(SpellAbility spell, ManaCost cost, CardCollectionView untapped, boolean improvise,
            Supplier<Map<Card, ManaCostShard>> ai) {
        // Those that give mana themselves do not help: without them it was found that a spell can be paid for.
        CardCollection idle = CardLists.filter(untapped, card -> card.getManaAbilities().isEmpty() || card.isSick());
        if (trial != null) {
            Map<Card, ManaCostShard> taps = trial.taps.containsKey(improvise) ? trial.taps.get(improvise)
                    : symbols(cost, idle, improvise);
            taps.keySet().stream().filter(Card::isUntapped).forEach(helped::add);
            helped.forEach(card -> card.setTapped(true)); // who helps gives no mana
            return taps;
        }
        Payment payment = current;
        if (payment == null || payment.ability != spell || payment.taps.containsKey(improvise) || untapped.isEmpty()) {
            return ai.get();
        }
        CardCollection chosen = ask(improvise ? "Tap for improvise" : "Tap for convoke", untapped, 0,
                improvise ? cost.getGenericCost() : cost.getCMC(),
                () -> CardLists.filter(untapped, ai.get()::containsKey));
        CardCollection taken = chosen;
        payment.taps.put(improvise, symbols(cost, taken, improvise));
        for (int i = 0; taken != idle && !suffices(payment); i++) {
            taken = i == idle.size() ? idle : new CardCollection(Iterables.concat(taken, List.of(idle.get(i))));
            payment.taps.put(improvise, symbols(cost, taken, improvise));
        }
        if (payment.delved != null) { // a trial forgets them
            payment.delved.forEach(card -> Reflect.tell(spell.getHostCard(), "addDelved", card));
        }
        if (!taken.equals(chosen)) {
            seat.repaired("choose_cards", "cards", taken);
        }
        return payment.taps.get(improvise);
    }

    /** Forge takes the cards off the list. */
    @SuppressWarnings("unchecked")
    private static Map<Card, ManaCostShard> symbols(ManaCost cost, CardCollection cards, boolean improvise) {
        Map<Card, ManaCostShard> taps = (Map<Card, ManaCostShard>) Reflect.fit(HELPING, null, cost, new CardCollection(cards),
                improvise, !improvise); // in 2.x artifacts, creatures
        return new LinkedHashMap<>(taps);
    }
}
