// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.game.ability.ApiType;
import forge.game.card.Card;
import forge.game.cost.Cost;
import forge.game.keyword.KeywordInterface;
import forge.game.player.Player;
import forge.game.spellability.SpellAbility;
import forge.game.zone.Zone;
import forge.game.zone.ZoneType;
import java.util.Set;

/** Tells cheaply of most cards that they have nothing to offer now, before the engine is asked at length. */
final class Prospects {
    /** Keywords that have nothing to do with when, from where and for how much a card can be played. */
    private static final Set<String> HARMLESS = Set.of("Flying", "First Strike", "Double Strike", "Deathtouch", "Defender",
            "Haste", "Hexproof", "Indestructible", "Lifelink", "Menace", "Reach", "Shroud", "Trample", "Vigilance", "Prowess",
            "Fear", "Intimidate", "Wither", "Infect", "Changeling", "Exalted", "CARDNAME enters the battlefield tapped.");
    private static final int ENDLESS = 1_000_000;

    private final Player player;
    private final Facts facts;
    private final boolean sorceryTime;
    private final boolean landTime;
    private final int mana;
    final Purse purse;

    Prospects(Player player, Facts facts) {
        this.player = player;
        this.facts = facts;
        sorceryTime = player.canCastSorcery();
        landTime = sorceryTime
                && (player.getMaxLandPlaysInfinite() || player.getLandsPlayedThisTurn() < player.getMaxLandPlays());
        mana = facts.costs || facts.richMana ? ENDLESS : mostMana();
        purse = new Purse(player, facts);
    }

    /** True only if the engine would offer nothing (but mana) of this card. */
    boolean none(Card card) {
        Zone zone = card.getZone();
        if (zone == null || card.isFaceDown()) {
            return false;
        }
        if (zone.is(ZoneType.Battlefield)) {
            return noneInPlay(card);
        }
        if (card.hasAlternateState() || !harmless(card) || !card.mayPlay(player).isEmpty()) {
            return false;
        }
        return zone.is(ZoneType.Hand) ? noneInHand(card) : noneElsewhere(card, zone);
    }

    static boolean harmless(Card card) {
        for (KeywordInterface keyword : card.getKeywords()) {
            String text = keyword.getOriginal();
            if (!HARMLESS.contains(text) && !text.startsWith("etbCounter") && !text.startsWith("Protection")) {
                return false;
            }
        }
        return true;
    }

    private boolean noneInPlay(Card card) {
        boolean mine = card.getController() == player;
        for (SpellAbility ability : card.getNonManaAbilities()) {
            if (ability.isSpell() || !mine && "You".equals(ability.getRestrictions().getActivator())) {
                continue;
            }
            boolean late = !sorceryTime && !facts.flash && !ability.getRestrictions().isInstantSpeed()
                    && (ability.isPwAbility() || ability.getRestrictions().isSorcerySpeed());
            boolean spent = ability.getPayCosts() != null && ability.getPayCosts().hasTapCost() && card.isTapped();
            if (!late && !spent && !tooDear(ability)) {
                return false;
            }
        }
        return true;
    }

    private boolean noneInHand(Card card) {
        if (card.isLand() && landTime) {
            return false;
        }
        boolean instant = sorceryTime || facts.flash || card.isInstant();
        for (SpellAbility ability : card.getNonManaAbilities()) {
            boolean late = ability.isSpell() && !instant && !ability.getRestrictions().isInstantSpeed();
            if (!late && (!tooDear(ability) || !card.getStaticAbilities().isEmpty())) {
                return false;
            }
        }
        return true;
    }

    /** In a graveyard, in exile, on a library: nothing but what names that zone. */
    private static boolean noneElsewhere(Card card, Zone zone) {
        for (SpellAbility ability : card.getNonManaAbilities()) {
            ZoneType from = ability.getRestrictions().getZone();
            if (from == null || zone.is(from) || ability.hasParam("AdditionalActivationZone")) {
                return false;
            }
        }
        return true;
    }

    private boolean tooDear(SpellAbility ability) {
        Cost cost = ability.getPayCosts();
        return mana < ENDLESS && cost != null && cost.hasManaCost() && Printed.least(cost.getTotalMana()) > mana;
    }

    /** An upper bound of the mana that the player can have now. */
    private int mostMana() {
        int sum = player.getManaPool().totalMana();
        for (Card card : player.getCardsIn(ZoneType.Battlefield)) {
            int most = 0;
            for (SpellAbility ability : card.getManaAbilities()) {
                boolean tap = ability.getPayCosts() != null && ability.getPayCosts().hasTapCost();
                most = Math.max(most, !tap ? ENDLESS : card.isTapped() ? 0 : amount(ability));
            }
            sum = Math.min(ENDLESS, sum + most);
        }
        return Purse.inHand(player) ? ENDLESS : sum;
    }

    private static int amount(SpellAbility ability) {
        String amount = ability.getParamOrDefault("Amount", "1");
        String produced = ability.getParamOrDefault("Produced", "Special");
        for (SpellAbility part = ability.getSubAbility(); part != null; part = part.getSubAbility()) {
            if (part.getApi() == ApiType.Mana) {
                return ENDLESS;
            }
        }
        if (!amount.matches("[0-9]{1,4}") || !produced.matches("Any|Chosen|Combo .*|[WUBRGC]( [WUBRGC])*")) {
            return ENDLESS;
        }
        int symbols = produced.matches("[WUBRGC]( .*)?") ? produced.split(" ").length : 1;
        return Integer.parseInt(amount) * symbols;
    }
}
