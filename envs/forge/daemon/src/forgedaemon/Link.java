// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.io.*;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.*;

/** One client. Its thread reads lines; commands are answered here, other lines are answers for the game thread. */
final class Link {
    private static final int MAX_LINE = 1 << 16;
    private static final String NOTHING = new String("nobody there");

    final Server server;
    private final Socket socket;
    private final OutputStream out;
    private final BlockingQueue<String> answers = new LinkedBlockingQueue<>();
    private volatile boolean awaiting;
    private volatile boolean closed;

    Link(Server server, Socket socket) throws IOException {
        this.server = server;
        this.socket = socket;
        this.out = socket.getOutputStream();
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
        while ((c = in.read()) >= 0) {
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

    /** One line of the client; false ends the connection. */
    private boolean handle(String line) {
        String word = line.split(" ", 2)[0];
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
            server.waiting.add(new Table(this, Request.parse(line)));
        } catch (Refusal refusal) {
            send("ERROR: " + refusal.getMessage());
        }
    }

    synchronized void send(String line) {
        if (closed) {
            return;
        }
        try {
            out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            out.flush();
        } catch (IOException gone) {
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
