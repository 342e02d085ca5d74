// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.lang.invoke.*;
import java.lang.ref.Reference;
import java.lang.reflect.*;
import java.util.*;
import java.util.function.Supplier;
import java.util.regex.Pattern;

/**
 * Lets something happen to a game and undoes it: all objects of the rules, the AI and the seats that can be reached from
 * one are noted with their fields before, and get them back after. Forge's AI aims abilities, pays for trial and
 * remembers its plans while it thinks, in more places than could be listed. Fields are read and written by
 * sun.misc.Unsafe, which reaches into the collections of the JDK as well; where it is refused, nothing can be undone.
 */
final class Rewind {
    /** What a game consists of; anything else is data of the cards, the JVM's or the connection's, or a view, and stays as it is. */
    private static final Pattern OURS = Pattern.compile("(?!.*\\$(Factory|EntrySet|KeySet|CellSet|Values)$)("
            + "forge\\.(game|ai|trackable|util\\.collect)\\..*|forge\\.card\\.CardType|forge\\.util\\.(?!Localizer|Lang).*"
            + "|forgedaemon\\.(?!Table|Link|Server|Request|Json|Facts|Printed).*|forgedaemon\\.Table(Game|\\$SeatPlayer).*"
            + "|java\\.util\\.(?!Random)[A-Z].*|java\\.util\\.concurrent\\.(atomic\\..*|(?!Thread|Fork)[A-Z].*)"
            + "|com\\.google\\.common\\.(collect|base)\\..*|org\\.apache\\.commons\\.lang3\\.(tuple|mutable)\\..*)");
    /** Null: refused. */
    static final Object UNSAFE = unsafe();
    private static final MethodHandle REFERENCE = handle("getObject", Object.class, Object.class, long.class);
    private static final MethodHandle SET_REFERENCE = handle("putObject", void.class, Object.class, long.class, Object.class);
    private static final MethodHandle WORD = handle("getInt", int.class, Object.class, long.class);
    private static final MethodHandle SET_WORD = handle("putInt", void.class, Object.class, long.class, int.class);
    private static final MethodHandle OFFSET = handle("objectFieldOffset", long.class, Field.class);
    private static final ClassValue<Layout> LAYOUTS = new ClassValue<>() {
        @Override
        protected Layout computeValue(Class<?> type) {
            return type.isArray() ? new Layout(LEAF.references, LEAF.words, LEAF.captured, true) : read(type);
        }
    };

    /** Where the fields of a class lie: references, and words of four bytes with everything else; what a lambda holds. */
    private record Layout(long[] references, long[] words, Field[] captured, boolean array) {}

    private static final Layout LEAF = new Layout(new long[0], new long[0], new Field[0], false);

    private final List<Object> objects = new ArrayList<>(1 << 16);
    private final List<Object> references = new ArrayList<>(1 << 18);
    /** The same objects, found by their identity. */
    private Object[] met = new Object[1 << 18];
    private int[] words = new int[1 << 18];
    private int used;

    private static Object unsafe() {
        try {
            Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return field.get(null);
        } catch (ReflectiveOperationException | RuntimeException refused) {
            return null;
        }
    }

    private static MethodHandle handle(String name, Class<?> result, Class<?>... arguments) {
        return Reflect.handle(
                () -> MethodHandles.publicLookup().bind(UNSAFE, name, MethodType.methodType(result, arguments)));
    }

    /** Whether this JVM lets fields be read and written. */
    static boolean possible() {
        List<String> trial = new ArrayList<>();
        try {
            return after(() -> trial.add(""), trial) && trial.isEmpty();
        } catch (RuntimeException | LinkageError refused) {
            return false;
        }
    }

    /** What comes of something that is done to objects, which then are as before. */
    static <T> T after(Supplier<T> what, Object... roots) {
        Rewind rewind = new Rewind();
        rewind.note(roots);
        try {
            return what.get();
        } finally {
            rewind.restore();
        }
    }

    // ---- before

    private void note(Object... roots) {
        for (Object root : roots) {
            meet(root);
        }
        try {
            for (int i = 0; i < objects.size(); i++) {
                Object object = objects.get(i);
                Layout layout = LAYOUTS.get(object.getClass());
                if (layout.array) {
                    references.add(copy(object));
                    if (object instanceof Object[] items) {
                        for (Object item : items) {
                            meet(item);
                        }
                    }
                    continue;
                }
                for (Field field : layout.captured) {
                    meet(field.get(object));
                }
                for (long at : layout.references) {
                    Object value = (Object) REFERENCE.invokeExact(object, at);
                    references.add(value);
                    meet(value);
                }
                for (long at : layout.words) {
                    if (used == words.length) {
                        words = Arrays.copyOf(words, 2 * used);
                    }
                    words[used++] = (int) WORD.invokeExact(object, at);
                }
            }
        } catch (Throwable refused) {
            throw Reflect.unchecked(refused);
        }
    }

    private void meet(Object value) {
        if (value == null || LAYOUTS.get(value.getClass()) == LEAF) {
            return;
        }
        int at = System.identityHashCode(value) & met.length - 1;
        while (met[at] != null && met[at] != value) {
            at = at + 1 & met.length - 1;
        }
        if (met[at] == null) {
            met[at] = value;
            objects.add(value);
            if (2 * objects.size() > met.length) {
                grow();
            }
        }
    }

    private void grow() {
        met = new Object[2 * met.length];
        for (Object object : objects) {
            int at = System.identityHashCode(object) & met.length - 1;
            while (met[at] != null) {
                at = at + 1 & met.length - 1;
            }
            met[at] = object;
        }
    }

    private static Object copy(Object array) {
        int length = Array.getLength(array);
        Object copy = Array.newInstance(array.getClass().getComponentType(), length);
        System.arraycopy(array, 0, copy, 0, length);
        return copy;
    }

    private static Layout read(Class<?> type) {
        if (type.isEnum() || type.isRecord() || Enum.class.isAssignableFrom(type)
                || Reference.class.isAssignableFrom(type)
                || !OURS.matcher(type.getName()).matches()) {
            return LEAF;
        }
        if (type.isHidden()) { // never changes; nothing else may refer to what it holds
            List<Field> captured = new ArrayList<>(List.of(type.getDeclaredFields()));
            captured.removeIf(field -> Modifier.isStatic(field.getModifiers()) || !field.trySetAccessible());
            return new Layout(LEAF.references, LEAF.words, captured.toArray(new Field[0]), false);
        }
        List<Long> references = new ArrayList<>();
        Set<Long> words = new TreeSet<>();
        try {
            for (Class<?> owner = type; owner != null; owner = owner.getSuperclass()) {
                for (Field field : owner.getDeclaredFields()) {
                    if (Modifier.isStatic(field.getModifiers())) {
                        continue;
                    }
                    long at = (long) OFFSET.invokeExact(field);
                    Class<?> kind = field.getType();
                    if (!kind.isPrimitive()) {
                        references.add(at);
                    } else {
                        words.add(at & ~3L);
                        words.addAll(kind == long.class || kind == double.class ? List.of(at + 4) : List.of());
                    }
                }
            }
        } catch (Throwable refused) {
            throw Reflect.unchecked(refused);
        }
        return new Layout(references.stream().mapToLong(Long::longValue).toArray(),
                words.stream().mapToLong(Long::longValue).toArray(), LEAF.captured, false);
    }

    // ---- after

    private void restore() {
        int reference = 0;
        int word = 0;
        try {
            for (Object object : objects) {
                Layout layout = LAYOUTS.get(object.getClass());
                if (layout.array) {
                    System.arraycopy(references.get(reference++), 0, object, 0, Array.getLength(object));
                    continue;
                }
                for (long at : layout.references) {
                    Object value = references.get(reference++);
                    if ((Object) REFERENCE.invokeExact(object, at) != value) {
                        SET_REFERENCE.invokeExact(object, at, value);
                    }
                }
                for (long at : layout.words) {
                    int value = words[word++];
                    if ((int) WORD.invokeExact(object, at) != value) {
                        SET_WORD.invokeExact(object, at, value);
                    }
                }
            }
        } catch (Throwable refused) {
            throw Reflect.unchecked(refused);
        }
    }
}
