// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Iterables;
import forge.ai.PlayerControllerAi;
import forge.game.*;
import forge.game.card.*;
import forge.game.combat.Combat;
import forge.game.cost.Cost;
import forge.game.player.Player;
import forge.game.spellability.*;
import forge.game.trigger.WrappedAbility;
import forge.game.zone.ZoneType;
import forge.util.collect.FCollectionView;
import java.util.*;
import java.util.function.*;
import org.apache.commons.lang3.tuple.Pair;

/**
 * The controller of a seat: the engine's questions become decisions, each kind in a class of its own; what is not
 * overridden here or by Bridge is left to Forge's AI, which is the class above.
 */
class Seat extends PlayerControllerAi {
    final Table table;
    final int number;
    private final Table.SeatPlayer lobby;
    /** Whether the client holds this seat. */
    boolean remote;
    /** Greater than 0 while Forge's AI decides something for this seat: then nothing is asked. */
    private int thinking;
    /** Whether an answer was given in place of the AI's. */
    boolean guessed;
    /** Cards that the rules show to this seat for the question being asked. */
    final Set<Integer> shown;
    /** Who decides for this player at the moment, sees what it may see, and is told of it; null: this seat itself. */
    private final Seat master;
    private Seat controlled;

    final View view;
    final Questions questions = new Questions(this);
    final Modes modes = new Modes(this);
    final Targets targets = new Targets(this);
    final Casting casting = new Casting(this);
    final Paying paying = new Paying(this);
    final Choices choices = new Choices(this);
    final Triggers triggers = new Triggers(this);
    private final Priority priority = new Priority(this);

    Seat(Game game, Player player, Table.SeatPlayer lobby, Table table, Seat master) {
        super(game, player, lobby);
        this.table = table;
        this.number = lobby.number;
        this.lobby = lobby;
        this.master = master;
        view = master == null ? new View(this) : master.view;
        shown = master == null ? new HashSet<>() : master.shown;
        remote = master == null ? table.request.remote[number] : master.remote;
        if (master != null) {
            master.controlled = this;
        }
    }

    /** The player at whose seat decisions are made: another one than the seat's where that one is controlled by it. */
    Player owner() {
        return master == null ? player : master.player;
    }

    /** Whether the seat sees what this player may see: its own, and a player whom it controls (rule 723.4). */
    boolean sees(Player other) {
        return other == owner() || other != null && other.getControllingPlayer() == owner();
    }

    boolean mayLook(Card card) {
        return Iterables.any(getGame().getPlayers(), other -> sees(other) && card.mayPlayerLook(other));
    }

    // ---- who decides

    /** Whether Forge's AI shall decide without a seat being asked or told. */
    boolean quiet() {
        return thinks() || !remote && !table.request.observe;
    }

    /** Whether what leaves no choice is not asked. */
    boolean lazy() {
        return table.request.skipPasses;
    }

    boolean thinks() {
        return thinking > 0 || table.advising;
    }

    <T> T think(Supplier<T> ai) {
        thinking++;
        try {
            return ai.get();
        } finally {
            thinking--;
        }
    }

    void think(Runnable ai) {
        think(() -> {
            ai.run();
            return null;
        });
    }

    /** A question to the client in the midst of what Forge's AI does for it. */
    <T> T awake(Supplier<T> question) {
        int before = thinking;
        thinking = 0;
        try {
            return question.get();
        } finally {
            thinking = before;
        }
    }

    /** An answer where Forge's AI does not decide by itself: it is no advice. */
    <T> T guess(T answer) {
        guessed = true;
        return answer;
    }

    /** Forge's AI decides for a client who is not asked: counted, and told at the end of the game. */
    <T> T left(String kind, Supplier<T> ai) {
        if (remote && !thinks()) {
            table.left.merge(kind, 1, Integer::sum);
        }
        return think(ai);
    }

    /** Forge's AI decides once for a client, with the profile of the seat. */
    <T> T lend(Supplier<T> ai) {
        String before = lobby.getAiProfile();
        lobby.setAiProfile(remote ? table.request.profiles[number] : before);
        try {
            return think(ai);
        } finally {
            lobby.setAiProfile(before);
        }
    }

    void handOver(String profile) {
        for (Seat seat : new Seat[] {this, master, controlled}) {
            if (seat != null) {
                seat.remote = false;
            }
        }
        lobby.setAiProfile(profile);
    }

    <T> T ask(String type, Consumer<Json> fields, String fallback, Function<String, T> parse, Supplier<T> ai,
            Function<T, String> say) {
        return table.ask(this, type, fields, fallback, parse, ai, say);
    }

    /** Tells of an answer that had to be mended, and with which cards. */
    void repaired(String type, String field, Iterable<Card> cards) {
        table.tell(this, "repaired",
                json -> json.put("decision_type", type).list(field, cards, card -> json.item(view.id(card))));
    }

    // ---- what Forge's AI does, for the kinds of decisions

    List<AbilitySub> aiModes(SpellAbility charm, List<AbilitySub> options, int min, int max, boolean repeat) {
        return super.chooseModeForAbility(charm, options, min, max, repeat);
    }

    /** The targets are set in the ability, too. */
    List<GameObject> aiTargets(SpellAbility ability) {
        super.chooseTargetsFor(ability);
        return new ArrayList<>(ability.getTargets());
    }

    // ---- priority

    @Override
    public List<SpellAbility> chooseSpellAbilityToPlay() {
        return priority.choose(super::chooseSpellAbilityToPlay);
    }

    @Override
    public boolean playChosenSpellAbility(SpellAbility ability) {
        return priority.play(ability, () -> super.playChosenSpellAbility(ability));
    }

    @Override
    public List<OptionalCostValue> chooseOptionalCosts(SpellAbility chosen, List<OptionalCostValue> values) {
        return casting.optional(chosen, values, some -> super.chooseOptionalCosts(chosen, some));
    }

    @Override
    public boolean payCostToPreventEffect(Cost cost, SpellAbility sa, boolean paid, FCollectionView<Player> payers) {
        return quiet() ? super.payCostToPreventEffect(cost, sa, paid, payers) : casting.payToPrevent(cost, sa, paid, payers);
    }

    // ---- modes and targets

    @Override
    public List<AbilitySub> chooseModeForAbility(SpellAbility charm, List<AbilitySub> possible, int min, int num, boolean repeat) {
        return modes.chosen(charm, possible, min, num, repeat);
    }

    @Override
    public boolean chooseTargetsFor(SpellAbility ability) {
        return quiet() ? super.chooseTargetsFor(ability) : targets.choose(ability);
    }

    @Override
    public Pair<SpellAbilityStackInstance, GameObject> chooseTarget(SpellAbility source,
            List<Pair<SpellAbilityStackInstance, GameObject>> pairs) {
        return questions.one("choose_entity", source, "Choose a target", pairs, false,
                (json, pair) -> view.option(json, pair.getValue()), () -> super.chooseTarget(source, pairs));
    }

    // ---- triggers and spells that effects let one play

    @Override
    public void orderAndPlaySimultaneousSa(List<SpellAbility> abilities) {
        triggers.orderAndPlay(abilities, () -> super.orderAndPlaySimultaneousSa(abilities));
    }

    @Override
    public void playSpellAbilityNoStack(SpellAbility effect, boolean canSetupTargets) {
        if (quiet() || !remote) {
            super.playSpellAbilityNoStack(effect, canSetupTargets);
        } else {
            triggers.playEffect(effect, canSetupTargets);
        }
    }

    @Override
    public boolean playSaFromPlayEffect(SpellAbility spell) {
        return triggers.playSpell(spell, () -> super.playSaFromPlayEffect(spell));
    }

    @Override
    public boolean confirmTrigger(WrappedAbility trigger) {
        Supplier<Boolean> ai = () -> super.confirmTrigger(trigger);
        return quiet() ? ai.get() : trigger.isMandatory() || questions.yes("play_trigger", trigger, String.valueOf(trigger), ai);
    }

    // ---- combat

    @Override
    public void declareAttackers(Player attacker, Combat combat) {
        table.check();
        if (quiet()) {
            super.declareAttackers(attacker, combat);
        } else {
            new Attacks(this, attacker, combat).declare(() -> super.declareAttackers(attacker, combat));
        }
    }

    @Override
    public void declareBlockers(Player defender, Combat combat) {
        table.check();
        if (quiet()) {
            super.declareBlockers(defender, combat);
        } else {
            new Blocks(this, defender, combat).declare(() -> super.declareBlockers(defender, combat));
        }
    }

    // ---- before the first turn

    @Override
    public Player chooseStartingPlayer(boolean firstGame) {
        int first = table.request.first;
        return first < 0 ? super.chooseStartingPlayer(firstGame) : table.seats[first].getPlayer();
    }

    @Override
    public boolean mulliganKeepHand(Player first, int toReturn) {
        Supplier<Boolean> mulligan = () -> !super.mulliganKeepHand(first, toReturn);
        return !(quiet() || !table.request.mulligans ? think(mulligan) : this.<Boolean>ask("mulligan",
                json -> json.put("hand_size", player.getCardsIn(ZoneType.Hand).size()).put("mulligans", toReturn),
                "n", Answers::yesOrNo, mulligan, choice -> choice ? "y" : "n"));
    }
}
