// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.util.function.Consumer;

/** Compact JSON into one StringBuilder: the few forms that the protocol needs. */
final class Json {
    final StringBuilder text = new StringBuilder(8192);

    static String oneLine(String text) {
        return text == null ? "" : text.replace('\r', ' ').replace('\n', ' ').trim();
    }

    private void comma() {
        char last = text.charAt(text.length() - 1);
        if (last != '{' && last != '[') {
            text.append(',');
        }
    }

    Json open() {
        if (text.length() > 0 && text.charAt(text.length() - 1) != ':') {
            comma();
        }
        text.append('{');
        return this;
    }

    Json close() {
        text.append('}');
        return this;
    }

    Json key(String name) {
        comma();
        text.append('"').append(name).append("\":");
        return this;
    }

    Json array(String name) {
        key(name).text.append('[');
        return this;
    }

    Json end() {
        text.append(']');
        return this;
    }

    /** A number, a boolean or a text. */
    Json put(String name, Object value) {
        key(name).write(value);
        return this;
    }

    /** A text or null. */
    Json maybe(String name, String value) {
        key(name);
        if (value == null) {
            text.append("null");
        } else {
            quote(value);
        }
        return this;
    }

    Json item(Object value) {
        comma();
        write(value);
        return this;
    }

    /** A list, whose items `writer` writes. */
    <T> Json list(String name, Iterable<? extends T> items, Consumer<T> writer) {
        array(name);
        items.forEach(writer);
        return end();
    }

    /** A list of objects, each with its number and what `writer` writes. */
    <T> Json numbered(String name, Iterable<? extends T> items, Consumer<T> writer) {
        int[] number = {0};
        return list(name, items, item -> {
            open().put("index", number[0]++);
            writer.accept(item);
            close();
        });
    }

    private void write(Object value) {
        if (value instanceof Integer || value instanceof Boolean) {
            text.append(value);
        } else {
            quote((String) value);
        }
    }

    private void quote(String value) {
        text.append('"');
        for (int i = 0; value != null && i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c == '\n') {
                text.append("\\n");
            } else if (c == '\r') {
                continue; // texts of cards end their lines with \r\n
            } else if (c < ' ' || Character.isSurrogate(c)) {
                text.append(String.format("\\u%04x", (int) c));
            } else {
                text.append(c);
            }
        }
        text.append('"');
    }
}
