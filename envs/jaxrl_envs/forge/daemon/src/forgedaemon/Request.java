// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.ai.AiProfileUtil;
import java.security.SecureRandom;
import java.util.*;
import java.util.regex.*;

/** A NEWGAME line. */
final class Request {
    private static final Pattern WORD = Pattern.compile("(?:\"(?:[^\"\\\\]|\\\\.)*\"|[^\" ])+|\"");

    final String[] decks = new String[2];
    final boolean[] remote = new boolean[2];
    final String[] profiles = {"Default", "Default"};
    boolean observe;
    boolean quiet;
    boolean skipPasses;
    boolean mulligans;
    boolean advice;
    double limit = 120;
    long seed = new SecureRandom().nextLong() >>> 1;
    int first = -1;

    static Request parse(String line) {
        Iterator<String> words = split(line).iterator();
        words.next();
        Request request = new Request();
        int found = 0;
        while (words.hasNext()) {
            String word = words.next();
            if (!word.startsWith("-") || word.length() == 1) {
                if (found == 2) {
                    throw new Refusal("NEWGAME takes two decks, this is a third: " + word);
                }
                request.decks[found++] = word;
            } else {
                request.option(word, words);
            }
        }
        if (found < 2) {
            throw new Refusal("NEWGAME needs two decks");
        }
        if (request.observe && (request.remote[0] || request.remote[1])) {
            throw new Refusal("-o shows both hands, so it goes without -i and -p");
        }
        if (request.advice && !Rewind.possible()) {
            throw new Refusal("-v needs sun.misc.Unsafe, which this Java refuses: take an older one");
        }
        Engine.deckFile(request.decks[0]);
        Engine.deckFile(request.decks[1]);
        return request;
    }

    private void option(String word, Iterator<String> words) {
        switch (word) {
            case "-i" -> remote[0] = remote[1] = true;
            case "-p" -> remote[(int) number(words, word, 1, 2) - 1] = true;
            case "-o" -> observe = true;
            case "-q" -> quiet = true;
            case "-a" -> skipPasses = true;
            case "-m" -> mulligans = true;
            case "-v" -> advice = true;
            case "-c" -> limit = number(words, word, 0.001, 1e9);
            case "-s" -> seed = seed(words);
            case "-f" -> first = (int) number(words, word, 0, 1);
            case "-A" -> setProfiles(next(words, word));
            default -> throw new Refusal("unknown option " + word);
        }
    }

    private void setProfiles(String text) {
        String[] names = text.split(",", -1);
        for (int seat = 0; seat < 2; seat++) {
            profiles[seat] = profile(names[Math.min(seat, names.length - 1)]);
        }
    }

    static String profile(String name) {
        String wanted = name.isBlank() ? "Default" : name.trim();
        Set<String> known = new TreeSet<>(AiProfileUtil.getAvailableProfiles());
        if (!known.contains(wanted) && !name.isBlank()) {
            throw new Refusal("no AI profile " + wanted + " (there are " + String.join(", ", known) + ")");
        }
        return wanted;
    }

    /** The word after an option. */
    static String next(Iterator<String> words, String option) {
        if (!words.hasNext()) {
            throw new Refusal(option + " needs a value");
        }
        return words.next();
    }

    private static long seed(Iterator<String> words) {
        String text = next(words, "-s");
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException wrong) {
            throw new Refusal("-s needs an integer, not " + text);
        }
    }

    static double number(Iterator<String> words, String option, double low, double high) {
        String text = next(words, option);
        try {
            double value = Double.parseDouble(text);
            if (value >= low && value <= high) {
                return value;
            }
        } catch (NumberFormatException wrong) {
            // told below
        }
        throw new Refusal(option + " needs a number from " + plain(low) + " to " + plain(high) + ", not " + text);
    }

    private static String plain(double number) {
        return number == Math.rint(number) ? Long.toString((long) number) : Double.toString(number);
    }

    /** Words between blanks; "..." holds a word with blanks, \" and \\ stand for themselves inside. */
    static List<String> split(String line) {
        List<String> words = new ArrayList<>();
        for (Matcher found = WORD.matcher(line); found.find(); ) {
            String word = found.group();
            if (word.equals("\"")) {
                throw new Refusal("a quotation mark is not closed");
            }
            words.add(word.contains("\"") ? word.replaceAll("\\\\(.)|\"", "$1") : word);
        }
        return words;
    }
}
