// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.ai.ComputerUtilMana;
import forge.card.mana.ManaCost;
import forge.card.mana.ManaCostShard;
import forge.game.card.*;
import forge.game.cost.CostPayment;
import forge.game.spellability.SpellAbility;
import forge.game.zone.Zone;
import forge.game.zone.ZoneType;
import java.util.*;
import java.util.function.Supplier;

/** Pays costs: the seat is asked for all but the sources of mana, which Forge's AI takes. */
final class Paying {
    private final Seat seat;
    /** What is being paid for; null: nothing. */
    private SpellAbility ability;
    /** Whether it is only tried whether something can be paid, and with which help; null: all there is. */
    private boolean trying;
    private Collection<Card> help;
    private final List<Card> helped = new ArrayList<>();
    private final List<Card> lent = new ArrayList<>();
    /** The graveyard before cards were exiled with delve, and these. */
    private CardCollection before = new CardCollection();
    private CardCollectionView delved = CardCollection.EMPTY;
    /** Whether the seat is asked with what it pays: meanwhile Forge's AI takes the sources of mana. */
    private boolean asks;

    Paying(Seat seat) {
        this.seat = seat;
    }

    /** False: not paid in full, `payment` knows what was; who helped is untapped again, and what was delved put back. */
    boolean pay(CostPayment payment, boolean effect) {
        SpellAbility outer = ability;
        boolean asked = asks;
        ability = payment.getAbility();
        asks = !seat.quiet();
        lent.clear();
        delved = CardCollection.EMPTY;
        try {
            boolean paid = payment.payCost(Bridge.make.costs(seat, ability, effect));
            if (!paid) {
                lent.forEach(card -> card.setTapped(false));
                putBack();
            }
            return paid;
        } finally {
            ability = outer;
            asks = asked;
        }
    }

    /** Forge exiles with delve before it pays the rest, and its AI never takes it back. */
    private void putBack() {
        if (delved.isEmpty()) {
            return;
        }
        Zone graveyard = seat.getPlayer().getZone(ZoneType.Graveyard);
        CardCollection cards = CardLists.filter(before, card -> delved.contains(card) || graveyard.contains(card));
        cards.addAll(graveyard.getCards());
        for (Card card : delved) {
            Card exiled = seat.getGame().getCardState(card);
            exiled.getZone().remove(exiled);
        }
        graveyard.setCards(cards);
    }

    /** Tries something that pays nothing, with all delve, convoke and improvise that there is. */
    boolean tries(Supplier<Boolean> trial) {
        trying = true;
        try {
            return seat.think(trial);
        } finally {
            trying = false;
            helped.forEach(card -> card.setTapped(false));
            helped.clear();
        }
    }

    private boolean suffices(Collection<Card> some) {
        help = some;
        try {
            return Moves.canPayMana(ability, seat.getPlayer());
        } finally {
            help = null;
        }
    }

    /** Cards of a graveyard that are exiled instead of generic mana. */
    CardCollectionView delved(int generic, CardCollection graveyard, Supplier<CardCollectionView> ai) {
        int most = Math.min(generic, graveyard.size());
        if (trying) {
            List<Card> offered = help == null ? graveyard : graveyard.stream().filter(help::contains).toList();
            return new CardCollection(offered.subList(0, Math.min(most, offered.size())));
        }
        if (!asks || most == 0) {
            return ai.get();
        }
        int least = 0;
        while (least < most && !suffices(graveyard.subList(0, least))) {
            least++;
        }
        int enough = least;
        before = new CardCollection(graveyard);
        delved = seat.awake(() -> seat.questions.cards("Exile with delve", ability, graveyard, enough, most, ai));
        return delved;
    }

    /** Creatures or artifacts that are tapped for a symbol each. Those that are missing are added, and told. */
    Map<Card, ManaCostShard> tapped(SpellAbility spell, ManaCost cost, CardCollectionView untapped, boolean improvise,
            Supplier<Map<Card, ManaCostShard>> ai) {
        if (trying) {
            Map<Card, ManaCostShard> symbols = symbols(cost, help == null ? idle(untapped)
                    : CardLists.filter(help, Card::isInPlay), improvise);
            helped.addAll(symbols.keySet());
            helped.forEach(card -> card.setTapped(true)); // who helps gives no mana
            return symbols;
        }
        if (!asks || untapped.isEmpty()) {
            return ai.get();
        }
        List<Map<Card, ManaCostShard>> found = new ArrayList<>();
        String message = improvise ? "Tap for improvise" : "Tap for convoke";
        int most = improvise ? cost.getGenericCost() : cost.getCMC();
        CardCollection chosen = seat.awake(() -> seat.questions.cards(message, spell, untapped, 0, most, () -> {
            found.add(ai.get());
            return new CardCollection(found.get(0).keySet());
        }));
        if (!found.isEmpty()) {
            return found.get(0);
        }
        CardCollection enough = new CardCollection(chosen);
        for (Card card : idle(untapped)) {
            if (suffices(enough)) {
                break;
            }
            enough.add(card);
        }
        if (!suffices(enough)) {
            enough = idle(untapped);
        }
        if (!enough.equals(chosen)) {
            CardCollection taken = enough;
            seat.table.tell(seat, "repaired", json -> {
                json.put("decision_type", "choose_cards").array("cards");
                taken.forEach(card -> json.item(seat.view.id(card)));
                json.end();
            });
        }
        Map<Card, ManaCostShard> symbols = symbols(cost, enough, improvise);
        lent.addAll(symbols.keySet());
        return symbols;
    }

    /** Those that do not give mana themselves: with all of them it was found that a spell can be paid for. */
    private static CardCollection idle(CardCollectionView cards) {
        return CardLists.filter(cards, card -> card.getManaAbilities().isEmpty() || card.isSick());
    }

    private static Map<Card, ManaCostShard> symbols(ManaCost cost, CardCollection cards, boolean improvise) {
        return new LinkedHashMap<>(ComputerUtilMana.getConvokeOrImproviseFromList(cost, cards, improvise));
    }
}
