// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import java.io.*;
import java.lang.reflect.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.function.Consumer;
import java.util.jar.*;
import java.util.regex.*;

/**
 * Makes the identity hashes of Forge's enum constants and classes the same in every JVM.
 *
 * Forge iterates over hash maps whose keys are enum constants (keywords, colours of mana) or whose hashes contain that
 * of a class. An identity hash is drawn by the JVM when it is first asked for, so the order of these maps differs
 * between two launches, and with it what the engine does. The hash lies in the object's header: it is written there,
 * before it is first asked for, by sun.misc.Unsafe, and only where a trial on an object of our own shows how the
 * header is laid out. Where that is not possible, `-XX:+UnlockExperimentalVMOptions -XX:hashCode=2` does the same.
 */
final class Hashes {
    private static final long MASK = 0x7fffffffL;
    private static Method read;
    private static Method swap;
    private static int shift = -1;

    private static boolean allowed;

    /** Whether this JVM let them be fixed, all but those that have been asked for by the initializer of their own type. */
    static boolean allowed() {
        return allowed;
    }

    static void pin() {
        int pinned = 0;
        List<String> late = new ArrayList<>();
        try {
            calibrate();
            for (String name : Engine.COUNTED) { // first: their subclasses are registered by some of the enums
                Class<?> type = Reflect.type("forge.game." + name);
                if (type != null && !write(type, type.getName())) {
                    late.add(type.getName());
                }
            }
            for (Class<?> type : enums()) {
                for (Object constant : type.getEnumConstants()) {
                    String name = type.getName() + "." + ((Enum<?>) constant).name();
                    if (!write(constant, name)) {
                        late.add(name);
                    }
                }
                pinned++;
            }
            allowed = pinned > 0;
        } catch (ReflectiveOperationException | IOException | RuntimeException | LinkageError failed) {
            late.add(failed.toString());
        }
        if (!late.isEmpty() || pinned == 0) {
            System.err.println("identity hashes: " + pinned + " types fixed, not: " + late
                    + "; a seed may give other games in another JVM");
        }
    }

    private static void calibrate() throws ReflectiveOperationException {
        Class<?> type = Rewind.UNSAFE.getClass();
        read = type.getMethod("getLong", Object.class, long.class);
        swap = type.getMethod("compareAndSwapLong", Object.class, long.class, long.class, long.class);
        Object trial = new Object();
        int hash = System.identityHashCode(trial);
        long header = (Long) read.invoke(Rewind.UNSAFE, trial, 0L);
        for (int at = 0; at <= 33 && shift < 0; at++) {
            shift = (header >>> at & MASK) == hash ? at : -1;
        }
        Object second = new Object();
        if (shift < 0 || !write(second, "trial") || System.identityHashCode(second) != hash("trial")) {
            throw new IllegalStateException("this JVM's object headers are not understood");
        }
    }

    /** Sets a static field of the JDK that reflection must not touch. */
    static Consumer<Random> setter(Field field) throws ReflectiveOperationException {
        Object base = Rewind.UNSAFE.getClass().getMethod("staticFieldBase", Field.class).invoke(Rewind.UNSAFE, field);
        Object offset = Rewind.UNSAFE.getClass().getMethod("staticFieldOffset", Field.class).invoke(Rewind.UNSAFE, field);
        Method put = Rewind.UNSAFE.getClass().getMethod("putObject", Object.class, long.class, Object.class);
        return random -> Reflect.call(put, Rewind.UNSAFE, base, offset, random);
    }

    private static int hash(String name) {
        return name.hashCode() & (int) MASK | 1;
    }

    /** False if the object already has another hash or is locked. */
    private static boolean write(Object object, String name) throws ReflectiveOperationException {
        long header = (Long) read.invoke(Rewind.UNSAFE, object, 0L);
        if ((header >>> shift & MASK) == hash(name)) {
            return true;
        }
        boolean untouched = (header & 3) == 1 && (header >>> shift & MASK) == 0;
        return untouched && (Boolean) swap.invoke(Rewind.UNSAFE, object, 0L, header, header | (long) hash(name) << shift);
    }

    private static final Pattern RULES_OR_AI =
            Pattern.compile("(forge/(?:(?:ai|card|deck|game|item|util|token|trackable)/.*|[^/]*))\\.class");

    /** The enum types of Forge's rules and AI (not of its GUI), found in the jars of the class path. */
    private static List<Class<?>> enums() throws IOException {
        List<Class<?>> result = new ArrayList<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!path.endsWith(".jar")) {
                continue;
            }
            try (JarFile jar = new JarFile(path)) {
                for (JarEntry entry : Collections.list(jar.entries())) {
                    Matcher file = RULES_OR_AI.matcher(entry.getName());
                    Class<?> type = file.matches() && mentionsEnum(jar, entry)
                            ? Reflect.type(file.group(1).replace('/', '.')) : null;
                    if (type != null && type.isEnum()) {
                        result.add(type);
                    }
                }
            }
        }
        // The AI's enums keep the rules' ones in maps, so those come first.
        result.sort(Comparator.comparing((Class<?> type) -> type.getName().startsWith("forge.ai."))
                .thenComparing(Class::getName));
        return result;
    }

    /** A class file that mentions java.lang.Enum: the few that are worth loading. */
    private static boolean mentionsEnum(JarFile jar, JarEntry entry) throws IOException {
        try (InputStream in = jar.getInputStream(entry)) {
            return new String(in.readAllBytes(), StandardCharsets.ISO_8859_1).contains("java/lang/Enum");
        }
    }
}
