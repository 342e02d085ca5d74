// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Iterables;
import forge.ai.PlayerControllerAi;
import forge.game.*;
import forge.game.card.*;
import forge.game.combat.Combat;
import forge.game.cost.Cost;
import forge.game.keyword.KeywordInterface;
import forge.game.player.DelayedReveal;
import forge.game.player.Player;
import forge.game.replacement.ReplacementEffect;
import forge.game.spellability.*;
import forge.game.trigger.WrappedAbility;
import forge.game.zone.ZoneType;
import forge.util.ITriggerEvent;
import forge.util.collect.FCollectionView;
import java.util.*;
import java.util.function.*;
import org.apache.commons.lang3.tuple.ImmutablePair;
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
    /** Who decides for this player at the moment; null: this seat itself. Then what it may see is seen, and told, by that seat. */
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

    /** The player at whose seat decisions are made: another one than the seat's where an effect lets it decide for its opponent. */
    Player owner() {
        return master == null ? player : master.player;
    }

    /** Whether the seat sees what is hidden from all but this player: its own, and that of a player whom it controls (rule 723.4). */
    boolean sees(Player other) {
        return other == owner() || other != null && other.getControllingPlayer() == owner();
    }

    boolean mayLook(Card card) {
        return Iterables.any(getGame().getPlayers(), other -> sees(other) && card.mayPlayerLook(other));
    }

    // ---- who decides

    /** Whether Forge's AI shall decide without anybody being asked or told. */
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
    public int chooseNumberForKeywordCost(SpellAbility sa, Cost cost, KeywordInterface keyword, String prompt, int max) {
        return casting.times(sa, cost, prompt, max, () -> super.chooseNumberForKeywordCost(sa, cost, keyword, prompt, max));
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
                (json, index, pair) -> view.option(json, index, pair.getValue()), () -> super.chooseTarget(source, pairs));
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

    @Override
    public List<Card> exertAttackers(List<Card> attackers) {
        return questions.some("Exert attackers", null, attackers, 0, attackers.size(), () -> super.exertAttackers(attackers));
    }

    // ---- cards, libraries

    @Override
    public CardCollectionView choosePermanentsToSacrifice(SpellAbility sa, int min, int max, CardCollectionView valid,
            String message) {
        return questions.cards("Sacrifice " + message, sa, valid, min, max,
                () -> super.choosePermanentsToSacrifice(sa, min, max, valid, message));
    }

    @Override
    public CardCollectionView choosePermanentsToDestroy(SpellAbility sa, int min, int max, CardCollectionView valid,
            String message) {
        return questions.cards("Destroy " + message, sa, valid, min, max,
                () -> super.choosePermanentsToDestroy(sa, min, max, valid, message));
    }

    @Override
    public CardCollectionView chooseCardsForEffect(CardCollectionView source, SpellAbility sa, String title, int min, int max,
            boolean optional, Map<String, Object> params) {
        if (optional && min > 1 && !quiet() && !questions.confirm(sa, title, () -> guess(true))) {
            return CardCollection.EMPTY; // "3 to 5 or none at all" is two questions
        }
        return questions.cards(title, sa, source, optional && min == 1 ? 0 : min, max,
                () -> super.chooseCardsForEffect(source, sa, title, min, max, optional, params));
    }

    @Override
    public <T extends GameEntity> T chooseSingleEntityForEffect(FCollectionView<T> options, DelayedReveal delayed,
            SpellAbility sa, String title, boolean optional, Player related, Map<String, Object> params) {
        choices.reveal(delayed);
        return questions.entity(sa, title, options, optional,
                () -> super.chooseSingleEntityForEffect(options, delayed, sa, title, optional, related, params));
    }

    @Override
    public <T extends GameEntity> List<T> chooseEntitiesForEffect(FCollectionView<T> options, int min, int max,
            DelayedReveal delayed, SpellAbility sa, String title, Player related, Map<String, Object> params) {
        choices.reveal(delayed);
        return questions.some(title, sa, options, min, max,
                () -> super.chooseEntitiesForEffect(options, min, max, delayed, sa, title, related, params));
    }

    @Override
    public Card chooseSingleCardForZoneChange(ZoneType destination, List<ZoneType> origin, SpellAbility sa,
            CardCollection options, DelayedReveal delayed, String prompt, boolean optional, Player decider) {
        choices.reveal(delayed);
        return questions.entity(sa, prompt, options, optional, () -> super.chooseSingleCardForZoneChange(destination, origin,
                sa, options, delayed, prompt, optional, decider));
    }

    @Override
    public List<Card> chooseCardsForZoneChange(ZoneType destination, List<ZoneType> origin, SpellAbility sa,
            CardCollection options, int min, int max, DelayedReveal delayed, String prompt, Player decider) {
        choices.reveal(delayed);
        return questions.some(prompt, sa, options, min, max, () -> super.chooseCardsForZoneChange(destination, origin, sa,
                options, min, max, delayed, prompt, decider));
    }

    @Override
    public CardCollection chooseCardsForEffectMultiple(Map<String, CardCollection> valid, SpellAbility sa, String title,
            boolean optional) {
        return quiet() ? super.chooseCardsForEffectMultiple(valid, sa, title, optional)
                : choices.ofEachKind(valid, sa, title, optional);
    }

    @Override
    public CardCollection chooseCardsToDiscardToMaximumHandSize(int count) {
        return questions.cards("Discard to the maximum hand size", null, player.getCardsIn(ZoneType.Hand), count, count,
                () -> super.chooseCardsToDiscardToMaximumHandSize(count));
    }

    @Override
    public CardCollection chooseCardsToRevealFromHand(int min, int max, CardCollectionView valid) {
        return questions.cards("Reveal", null, valid, min, max, () -> super.chooseCardsToRevealFromHand(min, max, valid));
    }

    @Override
    public ImmutablePair<CardCollection, CardCollection> arrangeForScry(CardCollection cards) {
        return questions.arrange(cards, "library", () -> super.arrangeForScry(cards));
    }

    @Override
    public ImmutablePair<CardCollection, CardCollection> arrangeForSurveil(CardCollection cards) {
        return questions.arrange(cards, "graveyard", () -> super.arrangeForSurveil(cards));
    }

    @Override
    public boolean willPutCardOnTop(Card card) {
        Supplier<Boolean> ai = () -> super.willPutCardOnTop(card);
        return quiet() ? ai.get() : questions.showing(List.of(card),
                () -> questions.confirm(null, "Leave " + card.getName() + " on top of the library", ai));
    }

    @Override
    public CardCollectionView orderMoveToZoneList(CardCollectionView cards, ZoneType destination, SpellAbility source) {
        Supplier<CardCollectionView> ai = () -> super.orderMoveToZoneList(cards, destination, source);
        boolean matters = destination != ZoneType.Exile && (destination != ZoneType.Graveyard || table.orderedGraveyards);
        return quiet() || cards.size() < 2 || !matters ? ai.get() : new CardCollection(questions.order(source,
                destination == ZoneType.Library ? "Order of the cards, the first on top" : "Order of the cards", cards,
                questions.things(), ai));
    }

    // ---- yes or no, numbers, texts, spells

    @Override
    public boolean confirmReplacementEffect(ReplacementEffect effect, SpellAbility sa, GameEntity affected, String question) {
        return questions.confirm(sa, question, () -> super.confirmReplacementEffect(effect, sa, affected, question));
    }

    @Override
    public boolean chooseBinary(SpellAbility sa, String question, BinaryChoiceType kind, Boolean fallback) {
        return questions.confirm(sa, question + " (" + kind + ")", () -> super.chooseBinary(sa, question, kind, fallback));
    }

    @Override
    public boolean chooseBinary(SpellAbility sa, String question, BinaryChoiceType kind, Map<String, Object> params) {
        return questions.confirm(sa, question + " (" + kind + ")", () -> super.chooseBinary(sa, question, kind, params));
    }

    @Override
    public boolean chooseCardsPile(SpellAbility sa, CardCollectionView pile1, CardCollectionView pile2, String faceUp) {
        boolean all = faceUp.equals("True");
        return questions.confirm(sa, "Take the first pile: " + Choices.pile(pile1, all || faceUp.equals("One"))
                + "; the second pile: " + Choices.pile(pile2, all), () -> super.chooseCardsPile(sa, pile1, pile2, faceUp));
    }

    @Override
    public int chooseNumber(SpellAbility sa, String title, int min, int max) {
        return questions.number(sa, title, min, max, () -> super.chooseNumber(sa, title, min, max));
    }

    @Override
    public int chooseNumber(SpellAbility sa, String title, int min, int max, Map<String, Object> params) {
        return questions.number(sa, title, min, max, () -> super.chooseNumber(sa, title, min, max, params));
    }

    @Override
    public int chooseNumber(SpellAbility sa, String title, List<Integer> values, Player related) {
        return questions.ability(sa, title, values, String::valueOf, () -> super.chooseNumber(sa, title, values, related));
    }

    @Override
    public CounterType chooseCounterType(List<CounterType> options, SpellAbility sa, String prompt, Map<String, Object> params) {
        return questions.ability(sa, prompt, options, String::valueOf, () -> super.chooseCounterType(options, sa, prompt, params));
    }

    @Override
    public SpellAbility chooseSingleSpellForEffect(List<SpellAbility> spells, SpellAbility sa, String title,
            Map<String, Object> params) {
        return questions.ability(sa, title, spells, View::describe,
                () -> super.chooseSingleSpellForEffect(spells, sa, title, params));
    }

    @Override
    public List<SpellAbility> chooseSpellAbilitiesForEffect(List<SpellAbility> spells, SpellAbility sa, String title, int count,
            Map<String, Object> params) {
        return questions.modes(sa, title, spells, count, count, View::describe,
                () -> super.chooseSpellAbilitiesForEffect(spells, sa, title, count, params));
    }

    @Override
    public SpellAbility getAbilityToPlay(Card host, List<SpellAbility> abilities, ITriggerEvent event) {
        return questions.ability(null, "Choose what to play", abilities, View::describe,
                () -> super.getAbilityToPlay(host, abilities, event));
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
