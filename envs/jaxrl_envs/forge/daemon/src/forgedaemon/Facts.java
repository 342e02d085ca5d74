// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.card.ICardFace;
import forge.deck.*;
import forge.item.PaperCard;
import java.util.*;
import java.util.regex.Pattern;

/** What the cards of two decks can do at all: decides which short cuts hold in a game. */
final class Facts {
    /** Whether the order of cards in a graveyard may matter. */
    final boolean orderedGraveyards;
    /** Whether spells may cost less or more than is printed on them. */
    final boolean costs;
    /** Whether a source of mana may give more than its ability says. */
    final boolean richMana;
    /** Whether sorceries may be cast like instants. */
    final boolean flash;
    /** Whether lands may be kept from giving mana, or give other mana than they say. */
    final boolean curbs;

    Facts(Deck... decks) {
        StringBuilder all = new StringBuilder(1 << 16);
        Set<String> seen = new HashSet<>();
        for (Deck deck : decks) {
            for (Map.Entry<DeckSection, CardPool> section : deck) {
                for (Map.Entry<PaperCard, Integer> entry : section.getValue()) {
                    if (seen.add(entry.getKey().getName())) {
                        script(all, entry.getKey().getRules().getMainPart());
                        script(all, entry.getKey().getRules().getOtherPart());
                    }
                }
            }
        }
        // cards that bring cards from nowhere may do anything
        boolean anything = has(all, "AnySupportedCard|ValidSupportedCopy|MakeCard|Conjure|Spellbook|Perpetual|DigitalOnly");
        costs = anything || has(all,
                "(Reduce|Raise|Set|Alternative)Cost|Mode\\$ *[A-Za-z]*Cost|NeedExtraMana|tamiyos_notebook|pay 0");
        curbs = anything || has(all, "CantBeActivated|can't be activated|Mode\\$ *CantTap|ManaConver");
        richMana = anything || has(all, "TapsForMana|ProduceMana|ManaReflected|Piracy");
        orderedGraveyards = has(all, "NeedsOrderedGraveyard");
        flash = anything || has(all, "CastWithFlash");
    }

    private static void script(StringBuilder all, ICardFace face) {
        if (face != null) {
            for (Iterable<String> part : Arrays.asList(face.getAbilities(), face.getTriggers(), face.getReplacements(),
                    face.getStaticAbilities(), face.getKeywords())) {
                for (String line : part == null ? Collections.<String>emptyList() : part) {
                    all.append(line).append('\n');
                }
            }
            for (Map.Entry<String, String> variable : face.getVariables()) {
                all.append(variable.getKey()).append('=').append(variable.getValue()).append('\n');
            }
        }
    }

    private static boolean has(CharSequence text, String pattern) {
        return Pattern.compile(pattern).matcher(text).find();
    }
}
