// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.io.*;
import java.nio.file.Path;
import java.util.*;

/** Reads the command line, starts the server, and says that it is ready. */
public final class ForgeDaemon {
    /** Where READY and FAILED go. The engine's own chatter on System.out is sent to standard error. */
    private static final PrintStream OUT = System.out;

    private String host = "127.0.0.1";
    private int port = 17171;
    private File res;
    private final List<Path> decks = new ArrayList<>();
    private boolean watchStdin;
    private boolean stock;

    private ForgeDaemon(String[] arguments) {
        Iterator<String> words = List.of(arguments).iterator();
        while (words.hasNext()) {
            String word = words.next();
            switch (word) {
                case "--port" -> port = (int) Request.number(words, word, 0, 65535);
                case "--res" -> res = new File(Request.next(words, word));
                case "--decks" -> decks.add(folder(Request.next(words, word)));
                case "--host" -> host = Request.next(words, word);
                case "--watch-stdin" -> watchStdin = true;
                case "--stock" -> stock = true;
                case "--forge-version" -> Engine.toldVersion = Request.next(words, word);
                default -> throw new Refusal("unknown option " + word);
            }
        }
        if (decks.isEmpty()) {
            decks.add(folder("."));
        }
        if (res == null) {
            throw new Refusal("--res is missing: the folder res of the Forge installation");
        }
        if (!new File(res, "cardsfolder").isDirectory()) {
            throw new Refusal(res + " has no cardsfolder: --res must name the folder res of a Forge installation");
        }
    }

    private static Path folder(String name) {
        return Path.of(name).toAbsolutePath().normalize();
    }

    public static void main(String[] arguments) {
        System.setOut(System.err);
        try {
            new ForgeDaemon(arguments).start();
        } catch (Throwable problem) {
            if (!(problem instanceof Refusal)) {
                problem.printStackTrace();
            }
            String reason = problem.getMessage() == null ? problem.toString() : problem.getMessage();
            OUT.println("FORGE DAEMON FAILED: " + Json.oneLine(reason));
            OUT.flush();
            Runtime.getRuntime().halt(2);
        }
    }

    private void start() {
        Server server = new Server(host, port, System.getenv().getOrDefault(Server.TOKEN, "")); // first, so that a port in use is told at once
        Engine.boot(res, decks, stock);
        server.start();
        if (watchStdin) {
            Server.background("stdin", ForgeDaemon::exitWhenStdinCloses);
        }
        OUT.println("FORGE DAEMON READY port=" + server.port() + " forge=" + Engine.version()
                + " short-cuts=" + (Engine.stock() ? "no" : "yes") + " repeats=" + (Engine.repeats() ? "yes" : "no"));
        OUT.flush();
    }

    private static void exitWhenStdinCloses() {
        try {
            System.in.transferTo(OutputStream.nullOutputStream());
        } catch (IOException closed) {
            // a broken pipe means the same: no reader is left
        }
        Runtime.getRuntime().halt(0);
    }
}
