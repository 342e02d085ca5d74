// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.ai.LobbyPlayerAi;
import forge.deck.Deck;
import forge.game.*;
import forge.game.phase.PhaseHandler;
import forge.game.player.*;
import java.lang.management.*;
import java.util.*;
import java.util.function.*;

/** One game from its NEWGAME line to its result, played by the one game thread. */
final class Table {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final long GRACE = 3_000_000_000L;

    /** Ends a game from inside one of our callbacks. An Error, so that no `catch (Exception` of the engine keeps it. */
    static final class Stopped extends Error {
        Stopped() {
            super("stopped", null, false, false);
        }
    }

    final Link link;
    final Request request;
    final Seat[] seats = new Seat[2];
    private final SeatPlayer[] players = new SeatPlayer[2];
    private Game game;
    /** What can happen in this game at all; null with --stock. */
    Facts facts;
    /** Names of cards whose facts the client has. */
    final Set<String> introduced = new HashSet<>();
    boolean orderedGraveyards;
    /** How often Forge's AI decided for a client who was not asked. */
    final Map<String, Integer> left = new TreeMap<>();
    /** Every controller that was made, those of controlled players too. */
    private final List<Seat> controllers = new ArrayList<>();
    /** While advice is sought: no seat is asked or told anything then. */
    boolean advising;
    private int decisions;
    private long started;
    private volatile Thread thread;
    private volatile long cpuStarted;
    private volatile boolean stopped;
    private volatile boolean timedOut;
    private volatile long overdueSince;
    /** Nanoseconds that were spent waiting for answers, and since when one is awaited (0: none). */
    private volatile long waited;
    private volatile long waitingSince;

    Table(Link link, Request request) {
        this.link = link;
        this.request = request;
    }

    void play() {
        thread = Thread.currentThread();
        cpuStarted = THREADS.getThreadCpuTime(thread.getId());
        started = System.nanoTime();
        Deck[] decks = new Deck[2];
        try {
            decks[0] = Engine.deck(request.decks[0]);
            decks[1] = Engine.deck(request.decks[1]);
        } catch (Refusal refusal) {
            link.send("ERROR: " + refusal.getMessage());
            return;
        }
        if (!request.quiet) {
            link.send("GAME_START: " + Engine.deckLabel(request.decks[0]) + " vs " + Engine.deckLabel(request.decks[1]));
            link.send("SEED: " + request.seed);
        }
        try {
            run(decks);
        } catch (Stopped | ThreadDeath end) {
            // reported below
        } catch (Throwable problem) {
            problem.printStackTrace();
            link.send("GAME_ERROR: " + Json.oneLine(problem.toString()));
            timedOut = false;
            stopped = true;
        }
        Thread.interrupted();
        report();
    }

    private void run(Deck[] decks) {
        Engine.reset(request.seed);
        List<RegisteredPlayer> registered = new ArrayList<>();
        for (int seat = 0; seat < 2; seat++) {
            players[seat] = new SeatPlayer(this, seat);
            RegisteredPlayer player = new RegisteredPlayer(decks[seat]);
            player.setPlayer(players[seat]);
            registered.add(player);
        }
        GameRules rules = new GameRules(GameType.Constructed);
        rules.setAppliedVariants(EnumSet.of(GameType.Constructed));
        rules.setGamesPerMatch(1);
        Match match = new Match(rules, registered, "jaxrl");
        Facts known = new Facts(decks);
        orderedGraveyards = known.orderedGraveyards;
        if (Engine.stock()) {
            game = match.createGame();
        } else {
            facts = known;
            game = new TableGame(registered, rules, match);
        }
        for (Seat seat : seats) {
            game.subscribeToEvents(seat.view.knowledge);
        }
        Engine.patient(game, request.limit);
        match.startGame(game);
    }

    private synchronized void report() {
        if (thread == null) {
            return; // the watch has already reported
        }
        thread = null;
        if (timedOut) {
            link.send("GAME_TIMEOUT: more than " + request.limit + " s of computing");
        }
        long ms = (System.nanoTime() - started) / 1_000_000;
        int winner = timedOut || stopped ? -1 : winner();
        link.server.finished();
        if (request.remote[0] || request.remote[1]) {
            Json json = new Json().open().put("info_type", "left").key("choices").open();
            left.forEach(json::put);
            link.send("INFO:" + json.close().put("asked", decisions).close().text);
        }
        link.send("GAME_RESULT: " + (winner < 0 ? "Draw" : players[winner].getName() + " won") + " in " + ms + "ms");
    }

    /** After a forced draw the engine counts everybody without an outcome as winner: two winners are a draw. */
    private int winner() {
        int winner = -1;
        for (int seat = 0; seat < 2; seat++) {
            PlayerOutcome outcome = game == null || !game.isGameOver() ? null : seats[seat].getPlayer().getOutcome();
            if (outcome != null && outcome.hasWon()) {
                winner = winner == -1 ? seat : -2;
            }
        }
        return winner;
    }

    /** Called by any thread: the game ends at the next question or move. */
    void stop() {
        stopped = true;
        link.interrupt();
    }

    /** Called by the watch every tenth of a second. */
    void watch() {
        Thread runner = thread;
        if (runner == null) {
            return;
        }
        long now = System.nanoTime();
        if (!timedOut && !stopped) {
            timedOut = (THREADS.getThreadCpuTime(runner.getId()) - cpuStarted) / 1e9 > request.limit
                    || waitingSince == 0 && (now - started - waited) / 1e9 > 20 * request.limit + 60; // it hangs
        }
        if (!timedOut && !stopped) {
            return;
        }
        if (overdueSince == 0) {
            overdueSince = now;
        } else if (now - overdueSince > 2 * GRACE) {
            report();
            System.err.println("the game thread cannot be stopped");
            Runtime.getRuntime().halt(3); // the supervisor starts another JVM
        } else if (now - overdueSince > GRACE) {
            killStill(runner);
        }
    }

    /** Its thread may have reported meanwhile, and be in the next game already. */
    private synchronized void killStill(Thread runner) {
        if (thread == runner) {
            kill(runner);
        }
    }

    /** Thread.stop where it still exists (to Java 19); later versions throw. */
    private static void kill(Thread runner) {
        try {
            Thread.class.getMethod("stop").invoke(runner);
        } catch (ReflectiveOperationException | RuntimeException gone) {
            runner.interrupt();
        }
    }

    /** Whether the client holds both seats and Forge's AI is not asked at the moment. */
    boolean noAi() {
        return controllers.size() > 1 && controllers.stream().allMatch(seat -> seat.remote && !seat.thinks());
    }

    void check() {
        if (stopped || timedOut) {
            throw new Stopped();
        }
    }

    // ---- questions

    /**
     * Asks the client that holds a seat, or reports what Forge's AI chose there (observe mode).
     *
     * @param fields writes the fields of the decision's type
     * @param fallback the answer that is taken after two unusable ones
     * @param parse reads an answer; refuses an unusable one
     * @param ai lets Forge's AI decide
     * @param say a choice as an answer line, null when it cannot be said
     */
    <T> T ask(Seat seat, String type, Consumer<Json> fields, String fallback, Function<String, T> parse,
            Supplier<T> ai, Function<T, String> say) {
        check();
        settle(seat, type.equals("order") || type.equals("scry"));
        decisions++;
        Json json = new Json();
        boolean observed = !seat.remote;
        json.open();
        if (observed) {
            json.put("info_type", "observed");
        }
        head(json, seat, type);
        fields.accept(json);
        json.key("game_state");
        seat.view.state(json);
        seat.view.introduce();
        if (observed) {
            T choice = seat.think(ai);
            json.maybe("choice", say.apply(choice));
            link.send("INFO:" + json.close().text);
            return choice;
        }
        if (request.advice) {
            json.maybe("advice", advice(seat, parse, ai, say));
        }
        return answered(seat, "DECISION:" + json.close().text, fallback, parse, ai);
    }

    /** What Forge's AI would answer, null where it cannot be said. It thinks about it, and then nothing has happened. */
    private <T> String advice(Seat seat, Function<String, T> parse, Supplier<T> ai, Function<T, String> say) {
        seat.guessed = false;
        advising = true;
        try {
            return Engine.apart(request.seed + decisions, () -> Rewind.after(() -> {
                String said = say.apply(seat.lend(ai));
                if (said != null) {
                    parse.apply(said); // refused if it is not possible here
                }
                return seat.guessed ? null : said;
            }, game, ai)); // the engine's own lists, too, which only the question knows
        } catch (Refusal unusable) {
            return null;
        } catch (RuntimeException | StackOverflowError broken) {
            check();
            System.err.println("no advice: " + broken);
            return null;
        } finally {
            advising = false;
        }
    }

    /** Something new begins: a player is asked, or has priority. */
    void settle(Seat asked, boolean orders) {
        for (Seat seat : seats) {
            seat.view.knowledge.settle(orders && seat.view == asked.view);
        }
    }

    private void head(Json json, Seat seat, String type) {
        PhaseHandler phases = game.getPhaseHandler();
        json.put("decision_type", type).put("decision_id", decisions).put("player", players[seat.number].getName())
                .put("seat", seat.number);
        if (seat.getPlayer() != seat.owner()) {
            json.put("for", seatOf(seat.getPlayer()));
        }
        json.put("turn", phases.getTurn())
                .put("phase", phases.getPhase() == null ? "" : phases.getPhase().name());
    }

    private <T> T answered(Seat seat, String line, String fallback, Function<String, T> parse, Supplier<T> ai) {
        for (int attempt = 0; ; attempt++) {
            String answer = await(line);
            try {
                if (answer.equals("ai")) {
                    return seat.lend(ai);
                }
                if (answer.startsWith("ai!")) {
                    seat.handOver(Request.profile(answer.substring(3)));
                    return seat.think(ai);
                }
                return parse.apply(answer);
            } catch (Refusal refusal) {
                if (attempt > 0) {
                    String taken = fallback.isEmpty() ? "\"\"" : fallback;
                    link.send("ERROR: " + refusal.getMessage() + "; the default " + taken + " taken");
                    return parse.apply(fallback);
                }
                link.send("ERROR: " + refusal.getMessage());
            }
        }
    }

    private String await(String line) {
        waitingSince = System.nanoTime();
        try {
            String answer = link.ask(line).trim();
            check();
            return answer;
        } finally {
            waited += System.nanoTime() - waitingSince;
            waitingSince = 0;
        }
    }

    /** Tells a seat's client something that needs no answer. */
    void tell(Seat seat, String kind, Consumer<Json> fields) {
        if (seat.remote || request.observe) {
            Json json = new Json().open().put("info_type", kind).put("seat", seat.number);
            fields.accept(json);
            seat.view.introduce();
            link.send("INFO:" + json.close().text);
        }
    }

    int seatOf(Player player) {
        for (int seat = 0; seat < 2; seat++) {
            if (seats[seat] != null && seats[seat].getPlayer() == player) {
                return seat;
            }
        }
        return player == null ? -1 : Math.max(0, Math.min(1, player.getId()));
    }

    /** The lobby player of a seat: it makes our controller instead of Forge's. */
    static final class SeatPlayer extends LobbyPlayerAi {
        /** No profile: while a client holds a seat, the automatic payment must not keep lands back for later. */
        static final String NEUTRAL = "";

        private final Table table;
        final int number;

        SeatPlayer(Table table, int number) {
            super((table.request.remote[number] ? "Agent(" : "Ai(") + (number + 1) + ")-"
                    + Engine.deckLabel(table.request.decks[number]), null);
            this.table = table;
            this.number = number;
            setAiProfile(table.request.remote[number] ? NEUTRAL : table.request.profiles[number]);
        }

        @Override
        public Player createIngamePlayer(Game game, int id) {
            Player player = table.facts == null ? new Player(getName(), game, id)
                    : new TableGame.TablePlayer(getName(), game, id, table);
            table.seats[number] = seat(game, player, null);
            player.setFirstController(table.seats[number]);
            return player;
        }

        /** Who controls another player decides for it, and sees what it sees. */
        @Override
        public PlayerController createMindSlaveController(Player master, Player slave) {
            return seat(slave.getGame(), slave, table.seats[number]);
        }

        private Seat seat(Game game, Player player, Seat master) {
            Seat seat = Bridge.make.seat(game, player, this, table, master);
            table.controllers.add(seat);
            return seat;
        }
    }
}
