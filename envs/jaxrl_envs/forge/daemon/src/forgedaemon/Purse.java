// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Iterables;
import forge.game.card.Card;
import forge.game.cost.Cost;
import forge.game.player.Player;
import forge.game.spellability.SpellAbility;
import forge.game.zone.ZoneType;
import java.util.*;
import java.util.regex.Pattern;

/**
 * Answers whether a cost can be paid where that is plain: the cost is printed mana only, and so is what the lands give.
 * Elsewhere it does not know, and Forge's automatic payment is tried, which takes a hundred times as long.
 */
final class Purse {
    private static final Pattern COLORS = Pattern.compile("(\\{([0-9]+|[WUBRGCX])\\})*");
    private static final Set<String> PLAIN = Set.of("AB", "Cost", "Produced", "Amount", "SpellDescription", "Secondary");
    private static final String LETTERS = "WUBRGC";

    private final Player player;
    private final Facts facts;
    /** For each source that can be used, which of LETTERS it gives; null where the sources are not plain. */
    private List<Integer> sources;

    Purse(Player player, Facts facts) {
        this.player = player;
        this.facts = facts;
        if (!facts.costs && !facts.richMana && !facts.curbs && player.getManaPool().isEmpty()) {
            sources = sources();
        }
    }

    private List<Integer> sources() {
        List<Integer> result = new ArrayList<>();
        for (Card card : player.getCardsIn(ZoneType.Battlefield)) {
            int colors = 0;
            for (SpellAbility ability : card.getManaAbilities()) {
                int given = given(ability);
                if (given < 0) {
                    return null;
                }
                colors |= given;
            }
            if (colors != 0 && !card.isTapped() && !card.isSick()) {
                result.add(colors);
            }
        }
        return inHand(player) ? null : result;
    }

    /** Whether there are cards that give mana out of the hand. */
    static boolean inHand(Player player) {
        return Iterables.any(player.getCardsIn(ZoneType.Hand), card -> Iterables.any(card.getManaAbilities(),
                ability -> ability.getRestrictions().getZone() != ZoneType.Battlefield));
    }

    /** The mana of "tap: add one mana", as bits of LETTERS; -1 for anything else. */
    private static int given(SpellAbility ability) {
        Cost cost = ability.getPayCosts();
        String produced = ability.getParamOrDefault("Produced", "");
        if (cost == null || cost.getCostParts().size() != 1 || !cost.hasTapCost() || ability.getSubAbility() != null
                || !ability.getParamOrDefault("Amount", "1").equals("1") || !PLAIN.containsAll(ability.getMapParams().keySet())
                || !produced.matches("[WUBRGC]|Combo( [WUBRGC])+")) {
            return -1;
        }
        int bits = 0;
        for (int i = 0; i < LETTERS.length(); i++) {
            bits |= produced.replace("Combo", "").indexOf(LETTERS.charAt(i)) < 0 ? 0 : 1 << i;
        }
        return bits;
    }

    /** Yes, no, or null: ask the engine. */
    Boolean suffices(SpellAbility ability) {
        Card card = ability.getHostCard();
        Cost cost = ability.getPayCosts();
        if (sources == null || cost == null || !cost.isOnlyManaCost() || ability.getMayPlay() != null
                || ability.isPwAbility() || ability.hasParam("Announce") || ability.hasParam("ReduceCost")
                || !Prospects.harmless(card) || !card.getSVar("ManaNeededToAvoidNegativeEffect").isEmpty()) {
            return null;
        }
        String text = cost.hasManaCost() ? cost.getTotalMana().toString() : "";
        return COLORS.matcher(text).matches() ? suffices(text, ability) : null;
    }

    private Boolean suffices(String cost, SpellAbility ability) {
        int[] wanted = new int[LETTERS.length()];
        int total = 0;
        for (String symbol : cost.split("[{}]+")) {
            int color = symbol.length() == 1 ? LETTERS.indexOf(symbol) : -1;
            if (color >= 0) {
                wanted[color]++;
                total++;
            } else if (symbol.equals("X")) {
                Integer x = ability.getXManaCostPaid();
                total += x == null ? 0 : x;
                if (ability.hasParam("XColor") || !Moves.xCanBe0(ability.getPayCosts()) || !xIsAnnounced(ability)) {
                    return null;
                }
            } else if (!symbol.isEmpty()) {
                total += Integer.parseInt(symbol);
            }
        }
        return matches(wanted, total);
    }

    static boolean xIsAnnounced(SpellAbility ability) {
        String value = ability.getSVar("X");
        return value.isEmpty() || value.equals("Count$xPaid");
    }

    private Boolean matches(int[] wanted, int total) {
        if (total > sources.size()) {
            return false;
        }
        boolean certain = true;
        for (int color = 0; color < wanted.length; color++) {
            int able = 0;
            int only = 0;
            for (int source : sources) {
                able += source >> color & 1;
                only += source == 1 << color ? 1 : 0;
            }
            if (able < wanted[color]) {
                return false;
            }
            certain &= only >= wanted[color];
        }
        return certain ? true : null;
    }
}
