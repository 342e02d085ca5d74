// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.util.concurrent.*;

/** One client. Its thread reads lines; commands are answered here, other lines are answers for the game thread. */
final class Link {
    private static final int MAX_LINE = 1 << 16;
    /** Seconds for a line: the first one, where a token is wanted, and any other. */
    private static final int GREETING = 10;
    private static final int IDLE = 3600;
    /** Nanoseconds after which a client that takes nothing is given up. */
    private static final long STUCK = 60_000_000_000L;
    private static final String NOTHING = new String("no client");

    final Server server;
    private final Socket socket;
    private final OutputStream out;
    private final BlockingQueue<String> answers = new LinkedBlockingQueue<>();
    private volatile boolean awaiting;
    private volatile boolean closed;
    /** Whether the client has shown the token. */
    private boolean known;
    /** Since when something is being sent, 0: nothing is. */
    private volatile long sendingSince;

    Link(Server server, Socket socket) throws IOException {
        this.server = server;
        this.socket = socket;
        this.out = socket.getOutputStream();
        known = server.knows("");
        socket.setTcpNoDelay(true);
    }

    void run() {
        try (InputStream in = new BufferedInputStream(socket.getInputStream(), 1 << 14)) {
            String line;
            while ((line = readLine(in)) != null) {
                if (!handle(line)) {
                    break;
                }
            }
        } catch (IOException gone) {
            // the same as an orderly end
        } finally {
            close();
        }
    }

    private String readLine(InputStream in) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream(128);
        int c;
        long end = System.nanoTime() + 1_000_000_000L * (known ? IDLE : GREETING);
        while ((c = read(in, end)) >= 0) {
            if (c == '\n') {
                String text = line.toString(StandardCharsets.UTF_8);
                return text.endsWith("\r") ? text.substring(0, text.length() - 1) : text;
            }
            if (line.size() >= MAX_LINE) {
                send("ERROR: line too long");
                return null;
            }
            line.write(c);
        }
        return null;
    }

    /** The next byte; -1: the stream has ended, or no byte came until `end`, unless the client has nothing to say meanwhile. */
    private int read(InputStream in, long end) throws IOException {
        while (true) {
            long left = (end - System.nanoTime()) / 1_000_000;
            try {
                if (left > 0) {
                    socket.setSoTimeout((int) left);
                    return in.read();
                }
            } catch (SocketTimeoutException silence) {
                // told below
            }
            if (awaiting || !server.serves(this)) {
                send("ERROR: nothing was said for too long");
                return -1;
            }
            end = System.nanoTime() + 1_000_000_000L * IDLE;
        }
    }

    /** One line of the client; false ends the connection. */
    private boolean handle(String line) {
        String[] words = line.split(" ", 3);
        String word = words[0];
        known |= word.equals("HELLO") && words.length > 2 && server.knows(words[2]);
        if (!known) {
            send("ERROR: HELLO 1 and the token of this daemon come first: set " + Server.TOKEN + " to it");
            return false;
        }
        switch (word) {
            case "PING" -> send("PONG");
            case "STATUS" -> send(server.status());
            case "HELLO" -> send("HELLO 1 forge=" + Engine.version());
            case "SHUTDOWN" -> Runtime.getRuntime().halt(0);
            case "NEWGAME" -> newGame(line);
            case "QUIT" -> { }
            default -> {
                if (awaiting) {
                    awaiting = false;
                    answers.add(line);
                } else if (!line.isEmpty() || server.playing != null && server.playing.link == this) {
                    send("ERROR: " + (word.matches("[A-Z]+") ? "unknown command " + word : "no decision is awaited"));
                }
            }
        }
        return !word.equals("QUIT");
    }

    private void newGame(String line) {
        try {
            if (!server.waiting.offer(new Table(this, Request.parse(line)))) {
                throw new Refusal("too many games wait");
            }
        } catch (Refusal | InvalidPathException refusal) {
            send("ERROR: " + Json.oneLine(refusal.getMessage()));
        }
    }

    synchronized void send(String line) {
        if (closed) {
            return;
        }
        sendingSince = System.nanoTime();
        try {
            out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        } catch (IOException gone) {
            close();
        } finally {
            sendingSince = 0;
        }
    }

    /** Called every tenth of a second. */
    void watch() {
        long since = sendingSince;
        if (since != 0 && System.nanoTime() - since > STUCK) {
            close();
        }
    }

    /** Called by the game thread: sends a line and waits for its answer. */
    String ask(String line) {
        answers.clear();
        awaiting = true;
        send(line);
        try {
            String answer = closed ? NOTHING : answers.take();
            if (answer == NOTHING) {
                throw new Table.Stopped();
            }
            return answer;
        } catch (InterruptedException stop) {
            throw new Table.Stopped();
        }
    }

    void interrupt() {
        answers.add(NOTHING);
    }

    void close() {
        closed = true;
        try {
            socket.close();
        } catch (IOException ignored) {
            // nothing is lost: it is being dropped
        }
        server.drop(this);
    }
}
