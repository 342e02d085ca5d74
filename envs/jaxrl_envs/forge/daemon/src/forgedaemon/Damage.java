// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Lists;
import forge.game.GameEntity;
import forge.game.card.*;
import forge.game.keyword.Keyword;
import forge.game.player.Player;
import java.util.*;
import java.util.function.Supplier;

/** How the damage of one source is divided, a number for each receiver in turn, and in which order they come. */
record Damage(Seat seat, Card source) {
    /**
     * A creature's combat damage; the null key of the result is what it attacks. Unless damage is divided as its controller
     * likes, a receiver comes only after those before it have lethal damage (rules 510.1c, 702.19).
     */
    Map<Card, Integer> assign(CardCollectionView cards, int damage, GameEntity defender, boolean free,
            Supplier<Map<Card, Integer>> ai) {
        Map<Card, Integer> chosen = seat.remote ? null : seat.think(ai);
        if (chosen == null && !seat.remote) {
            return null; // another attacker first
        }
        List<GameEntity> receivers = Lists.newArrayList(cards);
        if (defender != null && (free || source.hasKeyword(Keyword.TRAMPLE))) {
            receivers.add(defender);
        }
        Map<Card, Integer> result = new LinkedHashMap<>();
        int left = damage;
        for (GameEntity receiver : receivers) {
            Card card = receiver == defender ? null : (Card) receiver;
            boolean last = receiver == receivers.get(receivers.size() - 1);
            int least = free || card == null ? 0 : Math.min(left, lethal(card));
            Supplier<Integer> hint = () -> {
                Map<Card, Integer> all = chosen == null ? seat.think(ai) : chosen;
                return all == null ? least : all.getOrDefault(card, 0);
            };
            int share = last || least == left ? left : ask("damage to ", receiver, least, left, hint);
            if (share > 0) {
                result.put(card, share);
            }
            left -= share;
        }
        return chosen == null ? result : chosen;
    }

    private int lethal(Card card) {
        int lethal = Math.max(0, card.isCreature() ? card.getLethalDamage() : card.getCurrentLoyalty());
        return source.hasKeyword(Keyword.DEATHTOUCH) ? Math.min(1, lethal) : lethal;
    }

    private int ask(String what, GameEntity receiver, int min, int max, Supplier<Integer> ai) {
        View view = seat.view;
        return seat.questions.number(json -> {
            view.named(json.key("source").open(), source).put("description", "").close();
            json.key("about").open();
            if (receiver instanceof Player player) {
                json.put("player", seat.table.seatOf(player));
            } else {
                json.put("card_id", view.id((Card) receiver)).put("name", view.label(receiver));
            }
            json.close();
        }, what + view.label(receiver), min, max, ai);
    }

    /** How much of a shield each receiver of damage gets. */
    Map<GameEntity, Integer> shield(Map<GameEntity, Integer> affected, int amount) {
        Map<GameEntity, Integer> result = new LinkedHashMap<>();
        int[] left = {amount};
        affected.forEach((receiver, damage) -> {
            int most = Math.min(left[0], damage);
            int share = ask("damage prevented to ", receiver, 0, most, () -> seat.guess(most));
            result.put(receiver, share);
            left[0] -= share;
        });
        return result;
    }

    CardCollection order(CardCollection others, Supplier<CardCollection> ai) {
        return others.size() < 2 ? seat.think(ai) : new CardCollection(seat.questions.order(null, "Order in which "
                + seat.view.name(source) + " deals its damage", others, seat.questions.things(), ai));
    }

    /** Where a creature comes in an order that is there already. */
    CardCollection insert(Card card, CardCollection others, Supplier<CardCollection> ai) {
        CardCollection result = new CardCollection(others);
        result.add(ask("position of ", card, 0, others.size(), () -> ai.get().indexOf(card)), card);
        return result;
    }
}
