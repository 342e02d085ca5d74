// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.eventbus.Subscribe;
import forge.game.IIdentifiable;
import forge.game.card.Card;
import forge.game.card.CardView;
import forge.game.event.GameEventCardChangeZone;
import forge.game.event.GameEventShuffle;
import forge.game.player.Player;
import forge.game.zone.Zone;
import forge.game.zone.ZoneType;
import java.util.*;

/**
 * The cards in libraries and in the other hand that a seat knows: it was shown them, or saw them go there. A card is
 * forgotten as soon as it may have moved without the seat being able to tell, together with those that it may be confused with.
 */
final class Knowledge {
    /** Where a card lies; whether its place in a library is known; what was resolving when it was drawn from a known place. */
    private static final class Known {
        final Zone zone;
        boolean placed;
        Object drawn;

        Known(Zone zone, boolean placed) {
            this.zone = zone;
            this.placed = placed;
        }
    }

    private final Seat seat;
    private final Map<Integer, Known> cards = new LinkedHashMap<>();
    /** Cards that the seat has just been shown, and what resolves meanwhile: it sees what becomes of them. */
    private final Set<Integer> watched = new HashSet<>();
    private Object during;
    /** Cards that have gone to libraries since the last question; without an order their places are known of one alone. */
    private final List<Known> put = new ArrayList<>();
    private boolean ordered;

    Knowledge(Seat seat) {
        this.seat = seat;
    }

    private Object resolving() {
        return seat.getGame().getStack().isEmpty() ? null : seat.getGame().getStack().peek();
    }

    private static boolean is(Zone zone, ZoneType type) {
        return zone != null && zone.getZoneType() == type;
    }

    /** A zone whose cards are hidden from the seat. */
    private boolean secret(Zone zone) {
        return is(zone, ZoneType.Library) || is(zone, ZoneType.Hand) && !seat.sees(zone.getPlayer());
    }

    private static Card at(Zone zone, int id) {
        for (Card card : zone.getCards(false)) {
            if (card.getId() == id) {
                return card;
            }
        }
        return null;
    }

    // ---- what is seen

    /** A player is asked something, or has priority: what was shown before may move unseen from here on. */
    void settle(boolean orders) {
        watched.clear();
        put.clear();
        ordered = orders;
    }

    /** Cards that the seat was shown. Of a library it knows the places of those on top; others belong to a search. */
    void see(Iterable<?> things) {
        Set<Integer> ids = new HashSet<>();
        Set<Zone> libraries = new LinkedHashSet<>();
        during = resolving();
        for (Object thing : things) {
            Zone zone = thing instanceof Card card ? card.getLastKnownZone() : null;
            if (thing instanceof Card card && secret(zone) && (card.getZone() != null // or it is a copy, maybe of long ago
                    || at(zone, card.getId()) != null && !cards.containsKey(card.getId()))) {
                watched.add(card.getId());
                ids.add(card.getId());
                if (is(zone, ZoneType.Library)) {
                    libraries.add(zone);
                } else {
                    cards.put(card.getId(), new Known(zone, false));
                }
            }
        }
        for (Zone library : libraries) {
            for (Card card : library.getCards(false)) {
                if (!ids.contains(card.getId())) {
                    break;
                }
                cards.put(card.getId(), new Known(library, true));
            }
        }
    }

    // ---- what happens

    @Subscribe
    public void moved(GameEventCardChangeZone event) {
        Object moved = Reflect.part(event, "card");
        int id = ((IIdentifiable) moved).getId();
        Zone from = zone(Reflect.part(event, "from"));
        Zone to = zone(Reflect.part(event, "to"));
        Known before = cards.remove(id);
        boolean follows = watched.contains(id) && during == resolving();
        Card card = to == null || secret(to) ? null : at(to, id);
        boolean open = card != null && !seat.view.hidden(card);
        if (from == null || to == null || open && !secret(to)) {
            return;
        }
        if (secret(from) && !follows) {
            leftUnseen(from, to);
        }
        if (secret(to) && (secret(from) ? follows || before != null && before.placed && from != to : wasOpen(moved, from))) {
            keep(id, to, follows || !secret(from) ? null : resolving());
        }
    }

    /** A card has left a hidden zone, and it could have been any: of a hand, of the unknown places of a library, all that is looked at. */
    private void leftUnseen(Zone from, Zone to) {
        if (is(from, ZoneType.Hand) || from == to) {
            forget(from);
        } else {
            cards.values().removeIf(known -> known.zone == from && !known.placed);
        }
    }

    private boolean wasOpen(Object moved, Zone from) {
        boolean view = moved instanceof CardView;
        boolean faceDown = view ? ((CardView) moved).isFaceDown() : ((Card) moved).isFaceDown();
        Object controller = view ? ((CardView) moved).getController() : ((Card) moved).getController();
        return is(from, ZoneType.Hand) || !faceDown || seat.sees(Choices.player(seat.getGame(), controller));
    }

    /** The zone of an event, of which 2.x has a view; the stack stands for every zone without an owner. */
    private Zone zone(Object told) {
        if (told == null || told instanceof Zone) {
            return (Zone) told;
        }
        Player owner = Choices.player(seat.getGame(), Reflect.part(told, "player"));
        Zone found = owner == null ? null : owner.getZone((ZoneType) Reflect.part(told, "zoneType"));
        return found == null ? seat.getGame().getStackZone() : found;
    }

    private void keep(int id, Zone to, Object drawn) {
        Known known = new Known(to, is(to, ZoneType.Library));
        known.drawn = drawn;
        cards.put(id, known);
        if (known.placed) {
            put.add(known);
            if (put.size() > 1 && !(ordered && during == resolving())) {
                put.forEach(each -> each.placed = false);
            }
        }
    }

    @Subscribe
    public void shuffled(GameEventShuffle event) {
        forget(Choices.player(seat.getGame(), Reflect.part(event, "player")).getZone(ZoneType.Library));
    }

    /** All cards of a zone; and of a hand those that may have been chosen from the library by the same effect, not drawn. */
    private void forget(Zone zone) {
        Object now = resolving();
        cards.values().removeIf(known -> known.zone == zone
                || now != null && known.drawn == now && known.zone.getPlayer() == zone.getPlayer());
    }

    // ---- what is told

    void write(Json json) {
        for (Seat other : seat.table.seats) {
            Zone hand = other.getPlayer().getZone(ZoneType.Hand);
            if (secret(hand)) {
                for (Card card : hand.getCards(false)) {
                    if (seat.mayLook(card)) { // it is played with its hand revealed
                        cards.put(card.getId(), new Known(hand, false));
                    }
                }
            }
        }
        json.array("known");
        for (Iterator<Map.Entry<Integer, Known>> each = cards.entrySet().iterator(); each.hasNext(); ) {
            Map.Entry<Integer, Known> entry = each.next();
            Known known = entry.getValue();
            Card card = secret(known.zone) ? at(known.zone, entry.getKey()) : null;
            if (card == null) {
                each.remove();
            } else {
                write(json, card, known);
            }
        }
        json.end();
    }

    private void write(Json json, Card card, Known known) {
        boolean before = !seat.shown.add(card.getId());
        seat.view.fields(json, card, false);
        json.put("zone", known.zone.getZoneType().name());
        if (known.placed) {
            int place = known.zone.getCards(false).indexOf(card);
            json.put("position", 2 * place < known.zone.size() ? place : place - known.zone.size());
        }
        json.close();
        if (!before) {
            seat.shown.remove(card.getId());
        }
    }
}
