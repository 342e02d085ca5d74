// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.StaticData;
import forge.card.ICardFace;
import forge.game.CardTraitBase;
import forge.game.TriggerReplacementBase;
import forge.game.ability.ApiType;
import forge.game.cost.*;
import forge.game.replacement.ReplacementEffect;
import forge.game.spellability.*;
import forge.game.trigger.Trigger;
import forge.item.PaperToken;
import java.util.*;
import java.util.regex.*;

/** What abilities do, read from the parameters of Forge's scripts: items of a list in JSON, sub-abilities behind their root. */
final class Parts {
    private static final int DEEPEST = 8;
    private static final int VARIABLE = -1;
    private static final int VARIABLE_SIZE = -99;
    private static final List<String> AMOUNTS = List.of("NumDmg", "LifeAmount", "CounterNum", "TokenAmount", "NumCards",
            "ScryNum", "DigNum", "ChangeNum", "Amount", "NumTurns", "NumCopies", "Num", "ReduceAmount");
    /** What is done once where no amount is given. */
    private static final Set<String> ONCE = Set.of("Draw", "Discard", "Mill", "Mana", "Token", "PutCounter", "PutCounterAll",
            "RemoveCounter", "Scry", "Surveil", "Sacrifice", "ChangeZone", "Dig", "AddTurn", "Investigate", "Poison");
    /** Whom or what an ability without targets affects: by its type, or by what else it names. */
    private static final List<String> AFFECTED = List.of("Affected", "ValidCards", "ValidPlayers", "SacValid");
    private static final List<String> NAMED = List.of("Defined", "DefinedPlayer", "TokenOwner", "ValidCard", "ValidPlayer");
    private static final Set<String> TYPES = Set.of("creature", "player", "planeswalker", "artifact", "enchantment", "land",
            "permanent", "card", "any", "spell");
    private static final Map<String, String> SORTS = Map.ofEntries(Map.entry("opponent", "player"), Map.entry("you", "player"),
            Map.entry("instant", "spell"), Map.entry("sorcery", "spell"), Map.entry("equipment", "artifact"),
            Map.entry("vehicle", "artifact"), Map.entry("aura", "enchantment"), Map.entry("plains", "land"),
            Map.entry("island", "land"), Map.entry("swamp", "land"), Map.entry("mountain", "land"), Map.entry("forest", "land"));
    private static final Pattern THEIRS = Pattern.compile("OppCtrl|OppOwn|YouDont|Opponent");
    private static final Pattern MINE = Pattern.compile("YouCtrl|YouOwn|\\bYou\\b|\\bSelf\\b");
    private static final Pattern NUMBER = Pattern.compile("(?:Number\\$)?[+]?(-?\\d{1,6})");

    private final Json json;
    /** How many items were written. */
    int count;

    Parts(Json json) {
        this.json = json;
    }

    /** The list `parts` of an ability that is itself an option. */
    static void write(Json json, SpellAbility ability) {
        boolean mode = ability instanceof AbilitySub;
        String kind = mode && !ability.getHostCard().isPermanent() ? "spell" : ability.isTrigger() ? "trigger" : kind(ability);
        json.array("parts");
        new Parts(json).root(ability.isWrapper() && ability.getTrigger() != null ? ability.getTrigger() : ability, kind);
        json.end();
    }

    static String kind(CardTraitBase trait) {
        return trait instanceof Trigger ? "trigger" : trait instanceof ReplacementEffect ? "replacement"
                : trait instanceof SpellAbility ability ? ability.isSpell() ? "spell" : "activated" : "static";
    }

    /** Writes a spell, an activated ability, a trigger, a static ability or a replacement effect, and all that belongs to it. */
    void root(CardTraitBase trait, String kind) {
        SpellAbility ability = trait instanceof SpellAbility own ? own
                : trait instanceof TriggerReplacementBase cause ? cause.ensureAbility() : null;
        String mode = trait instanceof ReplacementEffect ? trait.getParam("Event")
                : trait instanceof SpellAbility ? "" : trait.getParam("Mode");
        open(kind, mode, ability);
        if (ability == null) {
            effect(trait, "");
        } else {
            effect(ability, api(ability));
        }
        if (trait instanceof SpellAbility own) {
            costs(own.getPayCosts());
        } else if (ability == null || !ability.hasParam("Destination")) {
            zones(trait);
        }
        json.close();
        if (ability != null) {
            follow(ability, kind, 1);
        }
    }

    private void open(String kind, String mode, SpellAbility ability) {
        count++;
        json.open().put("kind", kind);
        put("api", ability == null ? "" : api(ability), "");
        put("mode", mode == null ? "" : mode, "");
    }

    private static String api(SpellAbility ability) {
        ApiType api = ability.getApi();
        return api == null ? "" : api.name();
    }

    private void put(String name, Object value, Object usual) {
        if (!value.equals(usual)) {
            json.put(name, value);
        }
    }

    /** The sub-abilities: the next one, and those that stand in parameters (modes, what is repeated or delayed). */
    private void follow(SpellAbility ability, String kind, int depth) {
        if (depth > DEEPEST) {
            return;
        }
        List<SpellAbility> next = new ArrayList<>();
        new TreeMap<>(ability.getAdditionalAbilities()).values().forEach(next::add);
        new TreeMap<>(ability.getAdditionalAbilityLists()).values().forEach(next::addAll);
        if (ability.getSubAbility() != null) {
            next.add(ability.getSubAbility());
        }
        for (SpellAbility part : next) {
            if (part.getApi() != ApiType.Cleanup && part.getApi() != ApiType.StoreSVar) {
                open(kind, "", part);
                effect(part, api(part));
                json.put("after", true).close();
            }
            follow(part, kind, depth + 1);
        }
    }

    private void effect(CardTraitBase trait, String api) {
        put("amount", amount(trait, api), 0);
        size(trait, api);
        affected(trait);
        if (trait instanceof SpellAbility) {
            zones(trait);
        }
        String granted = trait.getParam(trait.hasParam("KW") ? "KW" : trait.hasParam("AddKeyword") ? "AddKeyword" : "Keywords");
        if (granted != null) {
            keywords(List.of(granted.split(" & ")));
        }
    }

    private void keywords(Iterable<String> words) {
        if (words.iterator().hasNext()) {
            json.list("keywords", words, json::item);
        }
    }

    private void zones(CardTraitBase trait) {
        put("origin", trait.getParamOrDefault("Origin", ""), "");
        put("destination", trait.getParamOrDefault("Destination", trait.getParamOrDefault("DestinationZone", "")), "");
    }

    private static int number(CardTraitBase trait, String text, int variable) {
        Matcher number = NUMBER.matcher(text);
        if (!number.matches() && !(number = NUMBER.matcher(trait.getSVar(text))).matches()) {
            return variable;
        }
        return Integer.parseInt(number.group(1));
    }

    private static int amount(CardTraitBase trait, String api) {
        int amount = ONCE.contains(api) ? 1 : 0;
        for (String name : AMOUNTS) {
            if (trait.hasParam(name)) {
                amount = number(trait, trait.getParam(name), VARIABLE);
                break;
            }
        }
        String list = trait.getParam(api.equals("Token") ? "TokenScript" : "Produced");
        boolean several = list != null && (api.equals("Token") || list.matches("[WUBRGC]( [WUBRGC])+"));
        return several && amount > 0 ? amount * list.split("[ ,]+").length : amount;
    }

    /** Power and toughness: of a token, or what is added. */
    private void size(CardTraitBase trait, String api) {
        if (api.equals("Token")) {
            token(trait);
            return;
        }
        String counter = trait.getParamOrDefault("CounterType", "");
        if (counter.matches("[PM]1[PM]1") && api.startsWith("PutCounter")) {
            int amount = amount(trait, api);
            int size = amount == VARIABLE ? VARIABLE_SIZE : counter.startsWith("P") ? amount : -amount;
            json.put("power", size).put("toughness", size);
            return;
        }
        for (String name : List.of("NumAtt", "AddPower", "SetPower", "Power")) {
            size("power", trait, name);
        }
        for (String name : List.of("NumDef", "AddToughness", "SetToughness", "Toughness")) {
            size("toughness", trait, name);
        }
    }

    private void size(String field, CardTraitBase trait, String name) {
        if (trait.hasParam(name)) {
            put(field, number(trait, trait.getParam(name), VARIABLE_SIZE), 0);
        }
    }

    private void token(CardTraitBase trait) {
        String script = trait.getParamOrDefault("TokenScript", "").split(",")[0];
        PaperToken token = script.isEmpty() || !StaticData.instance().getAllTokens().containsRule(script) ? null
                : StaticData.instance().getAllTokens().getToken(script);
        if (token == null) {
            return;
        }
        ICardFace face = token.getRules().getMainPart();
        if (face.getPower() != null) {
            String power = trait.getParamOrDefault("TokenPower", face.getPower());
            String toughness = trait.getParamOrDefault("TokenToughness", face.getToughness());
            put("power", number(trait, power, VARIABLE_SIZE), 0);
            put("toughness", number(trait, toughness, VARIABLE_SIZE), 0);
        }
        if (face.getKeywords() != null) {
            keywords(face.getKeywords());
        }
    }

    /** What is targeted or, with max_targets 0, affected without being targeted, and whose it is. */
    private void affected(CardTraitBase trait) {
        SpellAbility ability = trait instanceof SpellAbility own ? own : null;
        boolean aimed = ability != null && ability.usesTargeting();
        String types = first(trait, aimed ? List.of("ValidTgts") : AFFECTED);
        String valid = types == null ? first(trait, NAMED) : types;
        put("whose", valid == null ? ability != null && ability.getApi() != null ? "you" : "any"
                : THEIRS.matcher(valid).find() ? "opponent" : MINE.matcher(valid).find() ? "you" : "any", "any");
        if (types == null || types.endsWith(".Self")) {
            return;
        }
        boolean stack = trait.hasParam("TargetType");
        Set<String> found = new LinkedHashSet<>(stack ? List.of("spell") : List.of());
        for (String each : types.split(",")) {
            String type = each.trim().split("[.+]")[0].toLowerCase(Locale.ROOT);
            type = TYPES.contains(type) ? type : SORTS.getOrDefault(type, "creature");
            if (!stack || !type.equals("card")) {
                found.add(type);
            }
        }
        json.list("targets", found, json::item);
        put("max_targets", aimed ? number(trait, ability.getTargetRestrictions().getMaxTargets(), VARIABLE) : 0, 1);
    }

    private static String first(CardTraitBase trait, List<String> names) {
        return names.stream().map(trait::getParam).filter(Objects::nonNull).findFirst().orElse(null);
    }

    private void costs(Cost cost) {
        if (cost == null) {
            return;
        }
        put("mana", cost.hasManaCost() ? cost.getTotalMana().getCMC() : 0, 0);
        put("tap", cost.hasTapCost(), false);
        put("sacrifice", sum(cost, CostSacrifice.class), 0);
        put("discard", sum(cost, CostDiscard.class), 0);
        put("life", sum(cost, CostPayLife.class), 0);
        put("exile", sum(cost, CostExile.class), 0);
        put("remove_counters", sum(cost, CostRemoveCounter.class) + sum(cost, CostRemoveAnyCounter.class), 0);
    }

    private static int sum(Cost cost, Class<? extends CostPart> type) {
        int sum = 0;
        for (CostPart part : cost.getCostParts()) {
            if (type.isInstance(part)) {
                Integer amount = part.convertAmount();
                sum = amount == null || sum < 0 ? VARIABLE : sum + amount;
            }
        }
        return sum;
    }
}
