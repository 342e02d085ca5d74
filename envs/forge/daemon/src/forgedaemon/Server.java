// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.io.IOException;
import java.net.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.LockSupport;

/** Accepts connections; games of all connections go through one queue, because Forge's generator is per JVM. */
final class Server {
    private final ServerSocket socket;
    final BlockingQueue<Table> waiting = new LinkedBlockingQueue<>();
    volatile Table playing;
    volatile int played;
    /** Nanoseconds of CPU time that finished games took. */
    volatile long computed;

    Server(String host, int port) {
        try {
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
        start(new Thread(null, this::play, "Game", 64L << 20));
    }

    private void accept() {
        while (true) {
            try {
                Socket client = socket.accept();
                client.setTcpNoDelay(true);
                background("client", new Link(this, client)::run);
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

    /** Ends games that have used their CPU time. */
    private void watch() {
        while (true) {
            LockSupport.parkNanos(100_000_000);
            Table table = playing;
            if (table != null) {
                table.watch();
            }
        }
    }

    /** Called before the result is told, so that a client that has read it finds the daemon free. */
    void finished(long cpu) {
        computed += cpu;
        played++;
        playing = null;
    }

    void drop(Link link) {
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
                + "MB\n  Max concurrent: 1\n  Waiting: " + waiting.size() + "\n  Game CPU: " + computed / 1_000_000 + "ms";
    }
}
