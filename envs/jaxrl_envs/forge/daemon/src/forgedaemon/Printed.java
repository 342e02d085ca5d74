// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Iterables;
import forge.StaticData;
import forge.card.mana.ManaCost;
import forge.card.mana.ManaCostShard;
import forge.card.CardStateName;
import forge.game.CardTraitBase;
import forge.game.ability.ApiType;
import forge.game.card.*;
import forge.game.spellability.SpellAbility;
import forge.game.staticability.StaticAbility;
import forge.game.trigger.Trigger;
import forge.item.IPaperCard;
import java.util.*;

/**
 * What a card does, by its name: read from a card that Forge makes from its script, so that it is the same in every
 * game and tells nothing of one. Kept for the life of the JVM.
 */
final class Printed {
    private static final Map<Object, Printed> KNOWN = new HashMap<>();
    private static final Set<String> OTHERS = Set.of("LeftSplit", "RightSplit", "Adventure", "Secondary");
    /** The other face of a modal card; in 2.x that of any card with two faces. */
    private static final CardStateName MODAL = Arrays.stream(CardStateName.values())
            .filter(each -> Set.of("Modal", "Backside").contains(each.name())).findFirst().orElseThrow();

    /** An ability: where its parts begin, and how it is recognised on another copy of the card. */
    private record Root(int at, String kind, ApiType api, Map<String, String> script) {}

    /** The fields of the line, as JSON. */
    final String facts;
    private final List<Root> roots = new ArrayList<>();

    /** The facts of a name that a card goes by: one of its own, or of what it is a copy of. Tokens go by their scripts. */
    static Printed of(Card card, String name) {
        IPaperCard paper = card.getPaperCard();
        boolean token = paper != null && paper.isToken() && paper.getName().equals(name);
        Object key = token ? paper : name;
        Printed known = KNOWN.get(key);
        if (known == null) {
            known = Engine.apart(0, () -> new Printed(face(token ? paper : named(paper, name), name)));
            KNOWN.put(key, known);
        }
        return known;
    }

    private static IPaperCard named(IPaperCard paper, String name) {
        IPaperCard found = StaticData.instance().getCommonCards().getCard(name);
        return found == null ? paper : found;
    }

    /** A new card in the state of that name; null if it does not exist, as for what only exists within a game. */
    private static CardState face(IPaperCard paper, String name) {
        if (paper == null) {
            return null;
        }
        Card card = CardFactory.getCard(paper, null, null);
        for (CardStateName state : card.getStates()) {
            if (card.getState(state).getName().equals(name)) {
                card.setState(state, false);
                return card.getCurrentState();
            }
        }
        return null;
    }

    private Printed(CardState face) {
        Json json = new Json().open();
        ManaCost cost = face == null || face.getManaCost().isNoCost() ? ManaCost.ZERO : face.getManaCost();
        json.put("pips", pips(cost)).put("cmc", cost.getCMC()).put("produces", face == null ? "" : produces(face));
        List<ManaCost> others = face == null ? List.of() : others(face);
        if (!others.isEmpty() || Iterables.any(cost, Printed::inSeveralWays)) {
            int least = others.stream().mapToInt(Printed::least).min().orElse(Integer.MAX_VALUE);
            json.put("least", !others.isEmpty() && face.getCard().isSplitCard() ? least : Math.min(least, least(cost)));
        }
        json.array("parts");
        if (face != null) {
            Parts parts = new Parts(json);
            for (CardTraitBase trait : traits(face)) {
                String kind = Parts.kind(trait);
                roots.add(new Root(parts.count, kind, trait instanceof SpellAbility ability ? ability.getApi() : null, trait.getOriginalMapParams()));
                parts.root(trait, kind);
            }
        }
        json.end();
        facts = json.close().text.toString();
    }

    /** The abilities of a face in the order of the script, and those of the other face if it is cast from the hand as well. */
    private static List<CardTraitBase> traits(CardState face) {
        List<CardTraitBase> result = new ArrayList<>();
        face.getNonManaAbilities().forEach(result::add);
        face.getManaAbilities().forEach(result::add);
        Card card = face.getCard();
        if (face.getStateName() == CardStateName.Original && card.isModal() && card.hasState(MODAL)) {
            card.getState(MODAL).getNonManaAbilities().forEach(ability -> {
                if (ability.isSpell()) {
                    result.add(ability);
                }
            });
        }
        face.getTriggers().forEach(result::add);
        Set<StaticAbility> ofKeywords = Collections.newSetFromMap(new IdentityHashMap<>()); // those are told by name
        card.getUnhiddenKeywords(face).forEach(keyword -> ofKeywords.addAll(keyword.getStaticAbilities()));
        face.getStaticAbilities().forEach(ability -> {
            if (!ofKeywords.contains(ability)) {
                result.add(ability);
            }
        });
        face.getReplacementEffects().forEach(result::add);
        return result;
    }

    private static String pips(ManaCost cost) {
        StringBuilder letters = new StringBuilder();
        cost.forEach(shard -> letters.append(View.letters(shard.getColorMask())));
        return letters.toString();
    }

    /** What the other spells of a card cost: its halves, its adventure, its back if that is cast from the hand as well. */
    private static List<ManaCost> others(CardState face) {
        List<ManaCost> result = new ArrayList<>();
        if (face.getStateName() != CardStateName.Original) {
            return result;
        }
        for (CardStateName state : face.getCard().getStates()) {
            ManaCost cost = face.getCard().getState(state).getManaCost();
            boolean castToo = state == MODAL ? face.getCard().isModal() : OTHERS.contains(state.name());
            if (castToo && !cost.isNoCost()) {
                result.add(cost);
            }
        }
        return result;
    }

    private static boolean inSeveralWays(ManaCostShard symbol) {
        return symbol.isPhyrexian() || symbol.isOr2Generic() || Integer.bitCount(symbol.getColorMask()) > 1;
    }

    /** Mana that is enough: none for a Phyrexian symbol, which life pays, one for "two or a colour". */
    static int least(ManaCost cost) {
        int least = cost.getGenericCost();
        for (ManaCostShard symbol : cost) {
            least += symbol.isPhyrexian() ? 0 : symbol.isOr2Generic() ? 1 : symbol.getCmc();
        }
        return least;
    }

    private static String produces(CardState face) {
        StringBuilder letters = new StringBuilder();
        for (int i = 0; i < 6; i++) {
            String letter = "WUBRGC".substring(i, i + 1);
            for (SpellAbility ability : face.getManaAbilities()) {
                String produced = ability.getManaPart() == null ? "" : ability.getManaPart().getOrigProduced();
                boolean any = ability.getApi() == ApiType.ManaReflected || produced.matches(".*(Any|Chosen|ColorIdentity).*");
                if (any ? i < 5 : List.of(produced.split(" ")).contains(letter)) {
                    letters.append(letter);
                    break;
                }
            }
        }
        return letters.toString();
    }

    /** Where the parts of an ability of such a card begin; -1: it is not its own. */
    int part(SpellAbility ability) {
        Trigger trigger = ability.getTrigger();
        CardTraitBase trait = trigger == null ? ability.getRootAbility() : trigger;
        String kind = Parts.kind(trait);
        ApiType api = trigger == null ? ((SpellAbility) trait).getApi() : null;
        int similar = -1;
        for (Root root : roots) {
            if (root.kind.equals(kind) && root.api == api) {
                if (root.script.equals(trait.getOriginalMapParams())) {
                    return root.at;
                }
                similar = api == null ? -1 : similar == -1 ? root.at : -2;
            }
        }
        return Math.max(-1, similar); // its text was changed, and there is only one such
    }
}
