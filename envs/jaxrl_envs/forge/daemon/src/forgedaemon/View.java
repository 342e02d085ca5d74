// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Multiset;
import forge.card.*;
import forge.game.Game;
import forge.game.GameObject;
import forge.game.card.Card;
import forge.game.card.CounterEnumType;
import forge.game.combat.Combat;
import forge.game.mana.ManaPool;
import forge.game.phase.PhaseHandler;
import forge.game.player.Player;
import forge.game.spellability.*;
import forge.game.zone.Zone;
import forge.game.zone.ZoneType;
import java.util.*;

/** What one seat may see of a game, as JSON. */
final class View {
    private final Seat viewer;
    /** Numbers of hidden cards, see id. */
    private final Map<Integer, Integer> aliases = new HashMap<>();
    /** Cards that were named since the last `introduce`, by name, whose facts were not told in this game. */
    private final Map<String, Card> strangers = new LinkedHashMap<>();

    final Knowledge knowledge;

    View(Seat viewer) {
        this.viewer = viewer;
        knowledge = new Knowledge(viewer);
    }

    void state(Json json) {
        Game game = viewer.getGame();
        PhaseHandler phases = game.getPhaseHandler();
        json.open().put("turn", phases.getTurn())
                .put("phase", phases.getPhase() == null ? "" : phases.getPhase().name())
                .put("active", seatOf(phases.getPlayerTurn()))
                .put("priority", seatOf(phases.getPriorityPlayer())).put("you", viewer.number);
        for (Seat seat : viewer.table.seats) {
            if (seat.number != viewer.number && viewer.sees(seat.getPlayer())) {
                json.put("controls", seat.number);
            }
        }
        json.list("players", List.of(viewer.table.seats), seat -> player(json, seat))
                .list("stack", game.getStack(), item -> stackItem(json, item)).array("combat");
        if (game.getCombat() != null) {
            combat(json, game.getCombat());
        }
        knowledge.write(json.end());
        json.close();
    }

    private void player(Json json, Seat seat) {
        Player player = seat.getPlayer();
        json.open().put("seat", seat.number).put("name", player.getName()).put("life", player.getLife())
                .put("poison", player.getPoisonCounters());
        if (viewer.sees(player)) {
            cards(json, "hand", player, ZoneType.Hand);
        }
        json.put("hand_size", player.getCardsIn(ZoneType.Hand).size())
                .put("library_size", player.getCardsIn(ZoneType.Library).size());
        cards(json, "battlefield", player, ZoneType.Battlefield);
        cards(json, "graveyard", player, ZoneType.Graveyard);
        cards(json, "exile", player, ZoneType.Exile);
        json.put("mana_pool", mana(player.getManaPool())).put("lands_played", player.getLandsPlayedThisTurn())
                .put("energy", player.getCounters(CounterEnumType.ENERGY)).close();
    }

    private static String mana(ManaPool pool) {
        if (pool.isEmpty()) {
            return "";
        }
        StringBuilder letters = new StringBuilder();
        byte[] colors = {MagicColor.WHITE, MagicColor.BLUE, MagicColor.BLACK, MagicColor.RED, MagicColor.GREEN, 32};
        for (int i = 0; i < colors.length; i++) {
            for (int n = pool.getAmountOfColor(colors[i]); n > 0; n--) {
                letters.append("WUBRGC".charAt(i));
            }
        }
        return letters.toString();
    }

    private void cards(Json json, String name, Player player, ZoneType zone) {
        json.list(name, player.getCardsIn(zone), card -> card(json, card, zone == ZoneType.Battlefield));
    }

    String label(GameObject thing) {
        return thing instanceof Card card ? name(card)
                : thing instanceof SpellAbility spell ? name(spell.getHostCard()) : ((Player) thing).getName();
    }

    private int seatOf(Player player) {
        return viewer.table.seatOf(player);
    }

    /** Whether a card's face must not be told to the viewer. */
    boolean hidden(Card card) {
        return switch (zone(card)) {
            case Hand -> !viewer.sees(card.getController()) && !viewer.mayLook(card) && !viewer.shown.contains(card.getId());
            case Library -> !viewer.shown.contains(card.getId());
            case Battlefield, Stack -> card.isFaceDown() && !viewer.sees(card.getController());
            case Exile -> card.isFaceDown() && !viewer.mayLook(card);
            default -> false;
        };
    }

    private static ZoneType zone(Card card) {
        return card.getZone() == null ? ZoneType.None : card.getZone().getZoneType();
    }

    /**
     * The id under which a viewer knows a card. Forge numbers cards in the order of the deck list, so the number of
     * a hidden card would tell which one it is: hidden cards get numbers in the order in which they are met.
     */
    int id(Card card) {
        if (!hidden(card)) {
            return card.getId();
        }
        return aliases.computeIfAbsent(card.getId(), id -> 1_000_000 + aliases.size());
    }

    String name(Card card) {
        if (hidden(card)) {
            return "";
        }
        String name = card.isFaceDown() ? card.getState(CardStateName.Original).getName() : card.getName();
        if (!name.isEmpty() && !viewer.table.introduced.contains(name)) {
            strangers.putIfAbsent(name, card);
        }
        return name;
    }

    /** Tells what the cards do that are named for the first time. */
    void introduce() {
        strangers.forEach((name, card) -> {
            if (viewer.table.introduced.add(name)) {
                Json json = new Json().open().put("info_type", "facts").put("card", name).key("facts");
                json.text.append(Printed.of(card, name).facts);
                viewer.table.link.send("INFO:" + json.close().text);
            }
        });
        strangers.clear();
    }

    /** Which of a card's parts an ability is; -1: none. */
    int part(SpellAbility ability) {
        Card host = ability.getHostCard();
        String name = name(host);
        return name.isEmpty() ? -1 : Printed.of(host, name).part(ability);
    }

    void card(Json json, Card card, boolean inPlay) {
        fields(json, card, inPlay);
        json.close();
    }

    /** An object that is not closed yet. */
    void fields(Json json, Card card, boolean inPlay) {
        json.open().put("id", id(card)).put("name", name(card));
        if (card.isFaceDown() || hidden(card)) {
            json.put("face_down", true);
        }
        if (!hidden(card) || inPlay) {
            face(json, card);
        }
        if (inPlay) {
            permanent(json, card);
        }
        json.put("owner", seatOf(card.getOwner()));
        if (!hidden(card) || inPlay) {
            json.put("colors", letters(card.getColor().getColor()));
        }
    }

    private static void face(Json json, Card card) {
        String types = card.getType().toString();
        json.put("mana_cost", card.getManaCost().isNoCost() ? "" : card.getManaCost().toString())
                .put("cmc", card.getCMC()).put("types", types.replace(" - ", " "));
        if (card.isCreature()) {
            json.put("power", card.getNetPower()).put("toughness", card.getNetToughness());
        }
        if (card.isPlaneswalker()) {
            json.put("loyalty", card.getCurrentLoyalty());
        }
        json.list("keywords", card.getKeywords(), keyword -> json.item(keyword.getOriginal()));
    }

    private void permanent(Json json, Card card) {
        json.put("tapped", card.isTapped()).put("summoning_sick", card.isSick()).put("damage", card.getDamage());
        json.key("counters").open();
        counters(json, card.getCounters());
        json.close().list("attachments", card.getAttachedCards(), attached -> json.item(id(attached)))
                .put("attached_to", card.getAttachedTo() == null ? -1 : id(card.getAttachedTo()))
                .put("token", card.isToken());
    }

    /** A map in the engine's older versions, a multiset in later ones. */
    private static void counters(Json json, Object counters) {
        if (counters instanceof Map<?, ?> map) {
            map.forEach((counter, count) -> json.put(counter.toString(), (Integer) count));
        } else {
            ((Multiset<?>) counters).entrySet().forEach(entry -> json.put(entry.getElement().toString(), entry.getCount()));
        }
    }

    /** Of some colours, as bits. */
    static String letters(int colors) {
        StringBuilder letters = new StringBuilder(5);
        for (int i = 0; i < 5; i++) {
            if ((colors & 1 << i) != 0) {
                letters.append("WUBRG".charAt(i));
            }
        }
        return letters.toString();
    }

    private void stackItem(Json json, SpellAbilityStackInstance item) {
        Card source = item.getSourceCard();
        named(json.open(), source).put("controller", seatOf(item.getActivatingPlayer()))
                .put("kind", item.isSpell() ? "spell" : item.isTrigger() ? "trigger" : "ability")
                .put("from", item.isSpell() ? castFrom(source) : "")
                .put("part", part((SpellAbility) Reflect.fit(Moves.SPELL_OF, item, false)))
                .put("description", hidden(source) ? "" : item.getStackDescription()).array("targets");
        for (SpellAbilityStackInstance part = item; part != null; part = part.getSubInstance()) {
            TargetChoices targets = part.getTargetChoices();
            if (targets != null) {
                for (GameObject target : targets) {
                    object(json.open(), target).close();
                }
            }
        }
        json.end().close();
    }

    private static String castFrom(Card card) {
        Object from = card.getCastFrom();
        return from == null ? "" : (from instanceof Zone zone ? zone.getZoneType() : from).toString();
    }

    /** The id and name of a card that something is about. */
    Json named(Json json, Card card) {
        return json.put("card_id", id(card)).put("name", name(card));
    }

    /** The kind and id of something that can be chosen. */
    Json object(Json json, GameObject thing) {
        if (thing instanceof Player player) {
            return json.put("kind", "player").put("id", seatOf(player));
        }
        if (thing instanceof SpellAbility spell) {
            return json.put("kind", "spell").put("id", id(spell.getHostCard()));
        }
        return json.put("kind", "card").put("id", thing instanceof Card card ? id(card) : -1);
    }

    private void combat(Json json, Combat combat) {
        for (Card attacker : combat.getAttackers()) {
            json.open().put("attacker", id(attacker)).key("defender");
            object(json.open(), combat.getDefenderByAttacker(attacker)).close()
                    .list("blockers", combat.getBlockers(attacker), blocker -> json.item(id(blocker))).close();
        }
    }

    // ---- options

    /** An option that is a card, a player or a spell. */
    void option(Json json, GameObject thing) {
        object(json, thing);
        if (thing instanceof Player player) {
            json.put("name", player.getName());
        } else if (thing instanceof SpellAbility spell) {
            json.put("name", name(spell.getHostCard()))
                    .put("description", hidden(spell.getHostCard()) ? "" : spell.getStackDescription())
                    .put("controller", seatOf(spell.getActivatingPlayer()));
        } else if (thing instanceof Card card) {
            cardOption(json, card);
        }
    }

    private void cardOption(Json json, Card card) {
        ZoneType zone = zone(card);
        json.put("name", name(card)).put("controller", seatOf(card.getController())).put("zone", zone.name());
        boolean listed = zone == ZoneType.Battlefield || zone == ZoneType.Graveyard || zone == ZoneType.Exile
                || zone == ZoneType.Hand && viewer.sees(card.getController());
        if (!listed && !hidden(card)) {
            json.key("card");
            card(json, card, false);
        }
    }

    void source(Json json, SpellAbility ability) {
        Card card = ability == null ? null : ability.getHostCard();
        if (card != null) {
            named(json.key("source").open(), card)
                    .put("description", hidden(card) ? "" : Json.oneLine(describe(ability))).close();
        }
    }

    static String describe(SpellAbility ability) {
        String text = ability.getDescription();
        return text == null || text.isEmpty() ? String.valueOf(ability) : text;
    }
}
