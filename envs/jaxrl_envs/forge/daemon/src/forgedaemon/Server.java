// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.io.IOException;
import java.lang.management.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.LockSupport;

/** Accepts connections; games of all connections go through one queue, because Forge's generator is per JVM. */
final class Server {
    /** The environment variable with what clients have to know. */
    static final String TOKEN = "FORGE_DAEMON_TOKEN";
    private static final int MOST_LINKS = 64;
    private static final int MOST_WAITING = 64;

    private final ServerSocket socket;
    private final byte[] token;
    private final Set<Link> links = ConcurrentHashMap.newKeySet();
    final BlockingQueue<Table> waiting = new LinkedBlockingQueue<>(MOST_WAITING);
    volatile Table playing;
    volatile int played;
    private volatile Thread player;

    /** An empty token: everybody is welcome, on this machine only. */
    Server(String host, int port, String token) {
        this.token = token.getBytes(StandardCharsets.UTF_8);
        try {
            if (token.isEmpty() && !InetAddress.getByName(host).isLoopbackAddress()) {
                throw new Refusal("--host " + host + " serves other machines: set " + TOKEN + " to a secret, here and there");
            }
            socket = new ServerSocket();
            socket.setReuseAddress(true);
            socket.bind(new InetSocketAddress(InetAddress.getByName(host), port), 64);
        } catch (IOException | IllegalArgumentException failed) {
            throw new Refusal("cannot listen on " + host + ":" + port + ": " + failed.getMessage());
        }
    }

    int port() {
        return socket.getLocalPort();
    }

    boolean knows(String word) {
        return MessageDigest.isEqual(token, word.getBytes(StandardCharsets.UTF_8));
    }

    void start() {
        startPlayer();
        background("watch", this::watch);
        new Thread(this::accept, "accept").start(); // not a daemon thread: it keeps the JVM alive
    }

    static void background(String name, Runnable work) {
        start(new Thread(work, name));
    }

    private static void start(Thread thread) {
        thread.setDaemon(true);
        thread.start();
    }

    private void startPlayer() {
        // Forge asks whether the current thread's name begins with "Game"; deep recursion needs a large stack.
        player = new Thread(null, this::play, "Game", 64L << 20);
        start(player);
    }

    private void accept() {
        while (true) {
            try {
                Link link = new Link(this, socket.accept());
                links.add(link);
                if (links.size() > MOST_LINKS) {
                    link.send("ERROR: too many connections");
                    link.close();
                } else {
                    background("client", link::run);
                }
            } catch (IOException failed) {
                System.err.println("accept: " + failed);
            }
        }
    }

    private void play() {
        while (true) {
            try {
                Table table = waiting.take();
                playing = table;
                try {
                    table.play();
                } finally {
                    playing = null;
                }
            } catch (Throwable problem) {
                if (problem instanceof ThreadDeath) {
                    startPlayer();
                    return;
                }
                problem.printStackTrace();
            }
        }
    }

    /** Ends games that have used their CPU time, and connections whose clients do not read. */
    private void watch() {
        while (true) {
            LockSupport.parkNanos(100_000_000);
            Table table = playing;
            if (table != null) {
                table.watch();
            }
            links.forEach(Link::watch);
        }
    }

    /** Called before the result is told, so that a client that has read it finds the daemon free. */
    void finished() {
        played++;
        playing = null;
    }

    /** Whether a game of this connection waits or is played. */
    boolean serves(Link link) {
        Table table = playing;
        return table != null && table.link == link || waiting.stream().anyMatch(each -> each.link == link);
    }

    void drop(Link link) {
        links.remove(link);
        waiting.removeIf(table -> table.link == link);
        Table table = playing;
        if (table != null && table.link == link) {
            table.stop();
        }
    }

    String status() {
        Runtime runtime = Runtime.getRuntime();
        long used = (runtime.totalMemory() - runtime.freeMemory()) >> 20;
        return "FORGE DAEMON STATUS\n  Active games: " + (playing == null ? 0 : 1) + "\n  Total games played: "
                + played + "\n  Memory: " + used + "MB / " + (runtime.maxMemory() >> 20)
                + "MB\n  Max concurrent: 1\n  Waiting: " + waiting.size()
                + "\n  Garbage collection: " + collected() + " ms\n  Game thread: " + doing();
    }

    /** Milliseconds since the start of the JVM. */
    private static long collected() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream().mapToLong(GarbageCollectorMXBean::getCollectionTime).sum();
    }

    /** What the game thread does, by its stack: many answers give the share of each in the time of games. */
    private String doing() {
        if (playing == null) {
            return "idle";
        }
        for (StackTraceElement frame : player.getStackTrace()) {
            String name = frame.getClassName();
            if (name.equals("forgedaemon.Link")) {
                return "waiting"; // for an answer, or until a line is sent
            }
            if (name.startsWith("forge.ai.")) {
                return "ai"; // it pays for spells, too
            }
            if (name.startsWith("forgedaemon.") && !name.startsWith("forgedaemon.Table")) {
                return name.equals("forgedaemon.Server") ? "rules" : "seats"; // legal moves, views, carrying out
            }
        }
        return "rules";
    }
}
