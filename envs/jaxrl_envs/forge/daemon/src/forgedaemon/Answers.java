// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.util.*;
import java.util.function.IntUnaryOperator;
import java.util.stream.*;

/** How the answers of clients are read and, in observe mode, choices are written. Unusable ones are refused. */
final class Answers {
    private Answers() {}

    static int index(String text, int low, int high) {
        try {
            int value = Integer.parseInt(text.trim());
            if (value >= low && value < high) {
                return value;
            }
        } catch (NumberFormatException wrong) {
            // told below
        }
        throw new Refusal("expected a number from " + low + " to " + (high - 1) + ", not \"" + Json.oneLine(text) + "\"");
    }

    static List<Integer> indices(String text, int size, int min, int max, boolean repeat) {
        List<Integer> result = new ArrayList<>();
        for (String word : words(text)) {
            int value = index(word, 0, size);
            if (!repeat && result.contains(value)) {
                throw new Refusal(value + " was chosen twice");
            }
            result.add(value);
        }
        if (result.size() < min || result.size() > max) {
            throw new Refusal("expected " + min + " to " + max + " choices, not " + result.size());
        }
        return result;
    }

    private static String[] words(String text) {
        return text.isEmpty() ? new String[0] : text.split(",", -1);
    }

    /** "0:1,2:0" as pairs; the number of right sides depends on the left one. If each left is single, "0" alone means "0:0". */
    static List<int[]> pairs(String text, int size, IntUnaryOperator sizes, boolean single) {
        List<int[]> result = new ArrayList<>();
        Set<Object> seen = new HashSet<>();
        for (String word : words(text)) {
            int colon = word.indexOf(':');
            if (colon < 0 && !single) {
                throw new Refusal("expected blocker:attacker, not \"" + Json.oneLine(word) + "\"");
            }
            int left = index(colon < 0 ? word : word.substring(0, colon), 0, size);
            int right = colon < 0 ? 0 : index(word.substring(colon + 1), 0, sizes.applyAsInt(left));
            if (!seen.add(single ? (Object) left : left + ":" + right)) {
                throw new Refusal(word + " was given twice");
            }
            result.add(new int[] {left, right});
        }
        return result;
    }

    static boolean yesOrNo(String text) {
        if (text.equals("y") || text.equals("n")) {
            return text.equals("y");
        }
        throw new Refusal("expected y or n, not \"" + Json.oneLine(text) + "\"");
    }

    static <T> List<T> select(List<T> options, List<Integer> indices) {
        List<T> result = new ArrayList<>();
        indices.forEach(index -> result.add(options.get(index)));
        return result;
    }

    // ---- the other way round

    static String join(Collection<?> items) {
        return items.stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    /** The first indices. */
    static String first(int count) {
        return IntStream.range(0, count).mapToObj(String::valueOf).collect(Collectors.joining(","));
    }

    /** The indices of chosen items, null if one of them was not offered. */
    static <T> String said(Collection<? extends T> chosen, List<T> options) {
        List<Integer> numbers = chosen == null ? List.of(-1) : chosen.stream().map(options::indexOf).toList();
        return numbers.contains(-1) ? null : join(numbers);
    }

    static String said(List<int[]> pairs) {
        return pairs == null ? null : join(pairs.stream().map(pair -> pair[0] + ":" + pair[1]).toList());
    }
}
