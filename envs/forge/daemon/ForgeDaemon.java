/*
 * ForgeDaemon: plays games of Magic on a stock Forge installation for clients on a socket.
 *
 * This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public
 * License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later
 * version. It extends classes of Forge (https://github.com/Card-Forge/forge), which is licensed under the GPL-3.
 *
 * This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied
 * warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.
 * The license text lies beside this file (LICENSE).
 *
 * Start: java <flags> -cp <forge jar> ForgeDaemon.java --port N --res <forge>/res --decks DIR
 * The protocol is described in README.md beside this file.
 */

import com.google.common.base.Predicate;
import com.google.common.collect.Lists;
import com.google.common.collect.Multiset;
import forge.CardStorageReader;
import forge.ImageKeys;
import forge.StaticData;
import forge.ai.AiProfileUtil;
import forge.ai.ComputerUtil;
import forge.ai.ComputerUtilAbility;
import forge.ai.ComputerUtilCost;
import forge.ai.ComputerUtilMana;
import forge.ai.LobbyPlayerAi;
import forge.ai.PlayerControllerAi;
import forge.ai.SpellApiToAi;
import forge.card.CardType;
import forge.card.ColorSet;
import forge.card.MagicColor;
import forge.deck.CardPool;
import forge.deck.Deck;
import forge.deck.io.DeckSerializer;
import forge.game.Game;
import forge.game.GameActionUtil;
import forge.game.GameEntity;
import forge.game.GameObject;
import forge.game.GameRules;
import forge.game.GameType;
import forge.game.Match;
import forge.game.ability.AbilityUtils;
import forge.game.ability.ApiType;
import forge.game.ability.effects.CharmEffect;
import forge.game.card.Card;
import forge.game.card.CardCollection;
import forge.game.card.CardCollectionView;
import forge.game.card.CardUtil;
import forge.game.card.CardView;
import forge.game.card.CounterType;
import forge.game.combat.Combat;
import forge.game.combat.CombatUtil;
import forge.game.cost.Cost;
import forge.game.cost.CostPartMana;
import forge.game.cost.CostPayment;
import forge.game.keyword.KeywordInterface;
import forge.game.mana.ManaPool;
import forge.game.phase.PhaseHandler;
import forge.game.player.DelayedReveal;
import forge.game.player.Player;
import forge.game.player.PlayerActionConfirmMode;
import forge.game.player.PlayerOutcome;
import forge.game.player.PlayerView;
import forge.game.player.RegisteredPlayer;
import forge.game.replacement.ReplacementEffect;
import forge.game.spellability.AbilitySub;
import forge.game.spellability.LandAbility;
import forge.game.spellability.OptionalCostValue;
import forge.game.spellability.SpellAbility;
import forge.game.spellability.SpellAbilityStackInstance;
import forge.game.spellability.TargetChoices;
import forge.game.spellability.TargetRestrictions;
import forge.game.trigger.WrappedAbility;
import forge.game.zone.PlayerZone;
import forge.game.zone.Zone;
import forge.game.zone.ZoneType;
import forge.item.PaperCard;
import forge.util.BuildInfo;
import forge.util.FileUtil;
import forge.util.Lang;
import forge.util.Localizer;
import forge.util.MyRandom;
import forge.util.Visitor;
import forge.util.collect.FCollectionView;
import java.io.BufferedInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.commons.lang3.tuple.ImmutablePair;
import org.apache.commons.lang3.tuple.Pair;

public final class ForgeDaemon {
    /** Where READY and FAILED go. The engine's own chatter on System.out is sent to standard error. */
    private static final PrintStream OUT = System.out;

    private static Settings settings;

    private ForgeDaemon() {}

    public static void main(String[] arguments) {
        System.setOut(System.err);
        try {
            settings = Settings.parse(arguments);
            Server server = new Server(settings.host, settings.port); // first, so that a port in use is told at once
            Engine.boot(settings.res);
            server.start();
            if (settings.watchStdin) {
                background("stdin", ForgeDaemon::exitWhenStdinCloses);
            }
            OUT.println("FORGE DAEMON READY port=" + server.port() + " forge=" + Engine.version());
            OUT.flush();
        } catch (Throwable problem) {
            String reason = String.valueOf(problem.getMessage() == null ? problem : problem.getMessage());
            if (!(problem instanceof Refusal)) {
                problem.printStackTrace();
            }
            OUT.println("FORGE DAEMON FAILED: " + oneLine(reason));
            OUT.flush();
            Runtime.getRuntime().halt(2);
        }
    }

    private static void exitWhenStdinCloses() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException closed) {
            // a broken pipe says the same: nobody is there any more
        }
        Runtime.getRuntime().halt(0);
    }

    private static Thread background(String name, Runnable work) {
        Thread thread = new Thread(null, work, name, 0);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    static String oneLine(String text) {
        return text == null ? "" : text.replace('\r', ' ').replace('\n', ' ').trim();
    }

    // ------------------------------------------------------------------------------------------------ small things

    /** A request or an answer that cannot be used; the message is one sentence for the client. */
    private static final class Refusal extends RuntimeException {
        Refusal(String message) {
            super(message, null, false, false);
        }
    }

    /** Ends a game from inside one of our callbacks. An Error, so that no `catch (Exception` of the engine keeps it. */
    private static final class Stopped extends Error {
        Stopped() {
            super("stopped", null, false, false);
        }
    }

    /** The command line. */
    private static final class Settings {
        String host = "127.0.0.1";
        int port = 17171;
        File res;
        File decks = new File(".");
        boolean watchStdin;
        /** Without any of the short cuts below: what they are measured and checked against. */
        boolean stock;

        static Settings parse(String[] arguments) {
            Settings result = new Settings();
            Iterator<String> words = Arrays.asList(arguments).iterator();
            while (words.hasNext()) {
                String word = words.next();
                switch (word) {
                    case "--port": result.port = number(value(words, word)); break;
                    case "--res": result.res = new File(value(words, word)); break;
                    case "--decks": result.decks = new File(value(words, word)); break;
                    case "--host": result.host = value(words, word); break;
                    case "--loopback": result.host = "127.0.0.1"; break;
                    case "--watch-stdin": result.watchStdin = true; break;
                    case "--stock": result.stock = true; break;
                    default: throw new Refusal("unknown option " + word);
                }
            }
            if (result.res == null) {
                throw new Refusal("--res is missing: the folder res of the Forge installation");
            }
            if (!new File(result.res, "cardsfolder").isDirectory()) {
                throw new Refusal(result.res + " has no cardsfolder: --res must name the folder res of a Forge installation");
            }
            return result;
        }

        private static String value(Iterator<String> words, String option) {
            if (!words.hasNext()) {
                throw new Refusal(option + " needs a value");
            }
            return words.next();
        }

        private static int number(String text) {
            try {
                return Integer.parseInt(text);
            } catch (NumberFormatException wrong) {
                throw new Refusal("not a number: " + text);
            }
        }
    }

    /** Compact JSON into one StringBuilder: the few forms that the protocol needs. */
    private static final class Json {
        final StringBuilder text = new StringBuilder(8192);

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

        Json put(String name, String value) {
            key(name);
            quote(value);
            return this;
        }

        Json put(String name, int value) {
            key(name).text.append(value);
            return this;
        }

        Json put(String name, boolean value) {
            key(name).text.append(value);
            return this;
        }

        Json item(int value) {
            comma();
            text.append(value);
            return this;
        }

        Json item(String value) {
            comma();
            quote(value);
            return this;
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

    /** Reflection where Forge's versions differ. */
    private static final class Reflect {
        static Field field(Class<?> owner, String name) {
            try {
                Field field = owner.getDeclaredField(name);
                field.setAccessible(true);
                return field;
            } catch (NoSuchFieldException absent) {
                return null;
            }
        }

        static Class<?> type(String name) {
            try {
                return Class.forName(name, false, ForgeDaemon.class.getClassLoader());
            } catch (ClassNotFoundException absent) {
                return null;
            }
        }

        /** The first public method of that name with so many parameters, or else with as many as follow (null: none). */
        static Method method(Class<?> owner, String name, int... parameters) {
            for (int count : parameters) {
                for (Method method : owner.getMethods()) {
                    if (method.getName().equals(name) && method.getParameterCount() == count) {
                        return method;
                    }
                }
            }
            return null;
        }

        /** Calls a method whose parameters differ between versions: each gets the first argument left that fits it, or null. */
        static Object fit(Method method, Object self, Object... arguments) {
            List<Object> left = new ArrayList<>(Arrays.asList(arguments));
            List<Object> values = new ArrayList<>();
            for (Class<?> type : MethodType.methodType(void.class, method.getParameterTypes()).wrap().parameterArray()) {
                Object value = left.stream().filter(type::isInstance).findFirst().orElse(null);
                left.remove(value);
                values.add(value);
            }
            return call(method, self, values.toArray());
        }

        /** Calls a method that not every version has. */
        static void tell(Object self, String name, Object... arguments) {
            Method method = method(self.getClass(), name, arguments.length);
            if (method != null) {
                call(method, self, arguments);
            }
        }

        static Object call(Method method, Object self, Object... arguments) {
            try {
                return method.invoke(self, arguments);
            } catch (java.lang.reflect.InvocationTargetException wrapped) {
                Throwable cause = wrapped.getCause();
                if (cause instanceof RuntimeException) {
                    throw (RuntimeException) cause;
                }
                if (cause instanceof Error) {
                    throw (Error) cause;
                }
                throw new IllegalStateException(cause);
            } catch (IllegalAccessException hidden) {
                throw new IllegalStateException(hidden);
            }
        }
    }

    /**
     * Makes the identity hashes of Forge's enum constants and classes the same in every JVM.
     *
     * Forge iterates over hash maps whose keys are enum constants (keywords, colours of mana) or whose hashes contain that
     * of a class. An identity hash is drawn by the JVM when it is first asked for, so the order of these maps differs
     * between two launches, and with it what the engine does. The hash lies in the object's header: it is written there,
     * before anybody has asked for it, by sun.misc.Unsafe, and only where a trial on an object of our own shows how the
     * header is laid out. Where that is not possible, `-XX:+UnlockExperimentalVMOptions -XX:hashCode=2` does the same.
     */
    private static final class Hashes {
        private static final long MASK = 0x7fffffffL;
        private static Object unsafe;
        private static Method read;
        private static Method swap;
        private static int shift = -1;

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
                        if (!write(constant, type.getName() + "." + ((Enum<?>) constant).name())) {
                            late.add(type.getName() + "." + ((Enum<?>) constant).name());
                        }
                    }
                    pinned++;
                }
            } catch (ReflectiveOperationException | IOException | RuntimeException | LinkageError failed) {
                late.add(failed.toString());
            }
            if (!late.isEmpty() || pinned == 0) {
                System.err.println("identity hashes: " + pinned + " types fixed, not: " + late
                        + "; a seed may give other games in another JVM");
            }
        }

        private static void calibrate() throws ReflectiveOperationException {
            Class<?> type = Class.forName("sun.misc.Unsafe");
            Field instance = type.getDeclaredField("theUnsafe");
            instance.setAccessible(true);
            unsafe = instance.get(null);
            read = type.getMethod("getLong", Object.class, long.class);
            swap = type.getMethod("compareAndSwapLong", Object.class, long.class, long.class, long.class);
            Object trial = new Object();
            int hash = System.identityHashCode(trial);
            long header = (Long) read.invoke(unsafe, trial, 0L);
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
            Object base = unsafe.getClass().getMethod("staticFieldBase", Field.class).invoke(unsafe, field);
            Object offset = unsafe.getClass().getMethod("staticFieldOffset", Field.class).invoke(unsafe, field);
            Method put = unsafe.getClass().getMethod("putObject", Object.class, long.class, Object.class);
            return random -> Reflect.call(put, unsafe, base, offset, random);
        }

        private static int hash(String name) {
            return name.hashCode() & 0x7fffffff | 1;
        }

        /** False if the object already has another hash or is locked. */
        private static boolean write(Object object, String name) throws ReflectiveOperationException {
            long header = (Long) read.invoke(unsafe, object, 0L);
            if ((header >>> shift & MASK) == hash(name)) {
                return true;
            }
            boolean untouched = (header & 3) == 1 && (header >>> shift & MASK) == 0;
            return untouched && (Boolean) swap.invoke(unsafe, object, 0L, header, header | (long) hash(name) << shift);
        }

        /** The enum types of Forge's rules and AI (not of its GUI), found in the jars of the class path. */
        private static List<Class<?>> enums() throws IOException {
            List<Class<?>> result = new ArrayList<>();
            for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
                if (!path.endsWith(".jar")) {
                    continue;
                }
                try (java.util.jar.JarFile jar = new java.util.jar.JarFile(path)) {
                    for (java.util.jar.JarEntry entry : Collections.list(jar.entries())) {
                        if (entry.getName().matches("forge/((ai|card|deck|game|item|util|token|trackable)/.*|[^/]*)\\.class")
                                && mentionsEnum(jar, entry)) {
                            String name = entry.getName().replace('/', '.').substring(0, entry.getName().length() - 6);
                            Class<?> type = Reflect.type(name);
                            if (type != null && type.isEnum()) {
                                result.add(type);
                            }
                        }
                    }
                }
            }
            // The AI's enums keep the rules' ones in maps, so those come first.
            result.sort(java.util.Comparator.comparing((Class<?> type) -> type.getName().startsWith("forge.ai."))
                    .thenComparing(Class::getName));
            return result;
        }

        /** A class file that mentions java.lang.Enum: the few that are worth loading. */
        private static boolean mentionsEnum(java.util.jar.JarFile jar, java.util.jar.JarEntry entry) throws IOException {
            try (InputStream in = jar.getInputStream(entry)) {
                return new String(in.readAllBytes(), StandardCharsets.ISO_8859_1).contains("java/lang/Enum");
            }
        }
    }

    // ------------------------------------------------------------------------------------------------ the engine

    /** Loading of Forge's data without any class of its GUI, and the state that Forge keeps per JVM. */
    private static final class Engine {
        private static final String LANGUAGE = "en-US";
        private static final String NOWHERE = "no-such-folder" + File.separator;
        private static final Map<String, CachedDeck> decks = new HashMap<>();

        static String version() {
            String version = BuildInfo.getVersionString();
            return version == null || version.isEmpty() ? "unknown" : version;
        }

        static void boot(File res) {
            String base = res.getPath() + File.separator;
            Lang.createInstance(LANGUAGE);
            Localizer.getInstance().initialize(LANGUAGE, base + "languages" + File.separator);
            Hashes.pin(); // before anything of Forge is used but its texts, which its enum types need
            findShuffles();
            loadTypes(base + "lists" + File.separator);
            noImages(base);
            loadCards(base);
            AiProfileUtil.loadAllProfiles(base + "ai" + File.separator);
            if (!settings.stock && !version().matches("1\\.6\\.5[3-5]\\b.*")) {
                settings.stock = true; // a later card may do what a short cut takes for impossible
                System.err.println("the short cuts were not compared on Forge " + version() + ": it is played as with --stock");
            }
            Bridge.prepare();
        }

        /** Card types and keyword lists, which FModel.loadDynamicGamedata reads in the desktop program. */
        private static void loadTypes(String lists) {
            if (CardType.Constant.LOADED.isSet()) {
                return;
            }
            Map<String, Set<String>> sections = new HashMap<>();
            for (Field field : CardType.Constant.class.getFields()) {
                String name = field.getName();
                if (name.endsWith("_TYPES") && Collection.class.isAssignableFrom(field.getType())) {
                    String words = name.substring(0, name.length() - "_TYPES".length()).replace("_", "");
                    sections.put(words.toLowerCase() + "types", typeSet(field));
                }
            }
            Class<?> helper = Reflect.type("forge.card.CardType$Helper"); // later versions read the lines themselves
            Method parse = helper == null ? null : Reflect.method(helper, "parseTypes", 2);
            Set<String> section = null;
            String title = "";
            for (String line : FileUtil.readFile(lists + "TypeLists.txt")) {
                if (line.startsWith("[")) {
                    title = line.substring(1, line.indexOf(']'));
                    section = sections.get(title.toLowerCase());
                } else if (parse != null) {
                    Reflect.call(parse, null, title, Collections.singletonList(line));
                } else if (line.length() > 1 && section != null) {
                    String[] parts = line.split(":");
                    section.add(parts[0]);
                    if (parts.length > 1) {
                        CardType.Constant.pluralTypes.put(parts[0], parts[1]);
                    }
                }
            }
            CardType.Constant.LOADED.set();
            Field stacking = Reflect.field(CardUtil.class, "NON_STACKING_LIST");
            if (stacking != null) {
                for (String line : FileUtil.readFile(lists + "NonStackingKWList.txt")) {
                    if (line.length() > 1) {
                        typeSet(stacking).add(line);
                    }
                }
            }
        }

        @SuppressWarnings("unchecked")
        private static Set<String> typeSet(Field field) {
            try {
                Object value = field.get(null);
                if (value instanceof Set) {
                    return (Set<String>) value;
                }
                Collection<String> collection = (Collection<String>) value;
                return new java.util.AbstractSet<String>() {
                    @Override public boolean add(String item) { return collection.add(item); }
                    @Override public Iterator<String> iterator() { return collection.iterator(); }
                    @Override public int size() { return collection.size(); }
                };
            } catch (IllegalAccessException hidden) {
                throw new IllegalStateException(hidden);
            }
        }

        /** The card database looks for pictures while it is built: in a folder that does not exist. */
        private static void noImages(String base) {
            for (Method method : ImageKeys.class.getMethods()) {
                if (method.getName().equals("initializeDirs")) {
                    List<Object> values = new ArrayList<>();
                    for (Class<?> type : method.getParameterTypes()) {
                        values.add(type == String.class ? base + NOWHERE : new HashMap<String, String>());
                    }
                    Reflect.call(method, null, values.toArray());
                }
            }
        }

        /** StaticData has had several constructors: the longest is called, its parameters are known by type and order. */
        private static void loadCards(String base) {
            CardStorageReader cards = new CardStorageReader(base + "cardsfolder" + File.separator, null, false);
            CardStorageReader tokens = new CardStorageReader(base + "tokenscripts" + File.separator, null, false);
            Constructor<?> longest = null;
            for (Constructor<?> candidate : StaticData.class.getConstructors()) {
                if (longest == null || candidate.getParameterCount() > longest.getParameterCount()) {
                    longest = candidate;
                }
            }
            String nowhere = base + NOWHERE;
            Iterator<Object> readers = Arrays.<Object>asList(cards, tokens, null, null).iterator();
            Iterator<Object> texts = Arrays.<Object>asList(base + "editions" + File.separator, nowhere,
                    base + "blockdata" + File.separator, base + "setlookup" + File.separator,
                    "LATEST_ART_ALL_EDITIONS").iterator();
            Iterator<Object> flags = Arrays.<Object>asList(true, true, false, false).iterator();
            List<Object> values = new ArrayList<>();
            for (Class<?> type : longest.getParameterTypes()) {
                Iterator<Object> source = type == CardStorageReader.class ? readers : type == String.class ? texts : flags;
                values.add(source.hasNext() ? source.next() : type == boolean.class ? Boolean.FALSE : null);
            }
            try {
                longest.newInstance(values.toArray());
            } catch (ReflectiveOperationException failed) {
                Throwable cause = failed.getCause() == null ? failed : failed.getCause();
                throw new IllegalStateException("Forge's cards cannot be loaded: " + cause, cause);
            }
        }

        /** The generator of Collections.shuffle(list), which some of Forge's AI calls without naming one; null: out of reach. */
        private static Consumer<Random> shuffles;

        private static void findShuffles() {
            try {
                Field field = Collections.class.getDeclaredField("r");
                shuffles = Hashes.setter(field);
                shuffles.accept(new Random(0));
            } catch (ReflectiveOperationException | RuntimeException hidden) {
                shuffles = null;
                System.err.println("Collections.shuffle cannot be seeded (" + hidden + "); a seed may give other games");
            }
        }

        private static final Method SET_RANDOM = Reflect.method(MyRandom.class, "setRandom", 1);
        private static final Field RANDOM = SET_RANDOM == null ? Reflect.field(MyRandom.class, "random") : null;

        static void setRandom(Random random) {
            if (SET_RANDOM != null) {
                Reflect.call(SET_RANDOM, null, random);
                return;
            }
            try {
                RANDOM.set(null, random);
            } catch (IllegalAccessException hidden) {
                throw new IllegalStateException(hidden);
            }
        }

        /** Everything that Forge keeps per JVM and that a game depends on: the generator and the id counters. */
        static void reset(long seed) {
            try {
                setRandom(new Random(seed));
                if (shuffles != null) {
                    shuffles.accept(new Random(~seed));
                }
                for (String name : COUNTED) {
                    Class<?> type = Reflect.type("forge.game." + name);
                    Field counter = type == null ? null : Reflect.field(type, "maxId");
                    if (counter != null && counter.getType() == int.class) {
                        counter.setInt(null, 0);
                    }
                }
            } catch (IllegalAccessException hidden) {
                throw new IllegalStateException(hidden);
            }
        }

        /** Later versions stop the AI by the clock, after 5 s; a slow machine should not play another game for that. */
        static void patient(Game game, double seconds) {
            try {
                Field limit = Reflect.field(Game.class, "AI_TIMEOUT");
                if (limit != null && limit.getType() == int.class) {
                    limit.setInt(game, (int) Math.min(1_000_000, Math.max(5, seconds / 4)));
                }
                Field use = Reflect.field(Game.class, "AI_CAN_USE_TIMEOUT");
                if (use != null && use.getType() == boolean.class) {
                    use.setBoolean(game, false);
                }
            } catch (IllegalAccessException hidden) {
                throw new IllegalStateException(hidden);
            }
        }

        private static final String[] COUNTED = {
            "Game", "cost.IndividualCostPaymentInstance", "replacement.ReplacementEffect", "spellability.SpellAbility",
            "spellability.SpellAbilityStackInstance", "staticability.StaticAbility", "trigger.Trigger",
        };

        /** A deck, read again when its file has changed. Printings are chosen by a fixed generator. */
        static Deck deck(String name) {
            File file = deckFile(name);
            CachedDeck cached = decks.get(file.getPath());
            if (cached == null || cached.time != file.lastModified()) {
                reset(0);
                Deck deck = DeckSerializer.fromFile(file);
                if (deck == null || deck.getMain().countAll() == 0) {
                    throw new Refusal("no cards in deck " + name);
                }
                for (Map.Entry<PaperCard, Integer> entry : deck.getMain()) {
                    if (String.valueOf(entry.getKey().getRules().getOracleText()).contains("not supported by Forge")) {
                        throw new Refusal("deck " + name + " has a card that this Forge does not know: "
                                + entry.getKey().getName());
                    }
                }
                cached = new CachedDeck(deck, file.lastModified());
                decks.put(file.getPath(), cached);
            }
            return (Deck) cached.deck.copyTo(cached.deck.getName());
        }

        private static File deckFile(String name) {
            File direct = new File(name);
            File base = direct.isAbsolute() ? direct : new File(settings.decks, name);
            for (File file : new File[] {base, new File(base.getPath() + ".dck")}) {
                if (file.isFile()) {
                    return file;
                }
            }
            throw new Refusal("no deck " + name + " (looked for " + base.getPath() + ")");
        }

        /** What a deck is called in the name of its seat. */
        static String deckLabel(String name) {
            String label = new File(name).getName();
            return label.endsWith(".dck") ? label.substring(0, label.length() - 4) : label;
        }
    }

    private static final class CachedDeck {
        final Deck deck;
        final long time;

        CachedDeck(Deck deck, long time) {
            this.deck = deck;
            this.time = time;
        }
    }

    // ------------------------------------------------------------------------------------------------ the server

    /** Accepts connections; games of all connections go through one queue, because Forge's generator is per JVM. */
    private static final class Server {
        private final ServerSocket socket;
        final BlockingQueue<Table> waiting = new LinkedBlockingQueue<>();
        volatile Table playing;
        volatile int played;
        /** Nanoseconds of CPU time that finished games took. */
        volatile long computed;
        private Thread player;

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
            background("watch", new Watch(this)::run);
            Thread accept = new Thread(this::accept, "accept");
            accept.start(); // not a daemon thread: it keeps the JVM alive
        }

        private void startPlayer() {
            // Forge asks whether the current thread's name begins with "Game"; deep recursion needs a large stack.
            player = new Thread(null, this::play, "Game", 64L << 20);
            player.setDaemon(true);
            player.start();
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

    /** Ends games that have used their CPU time. */
    private static final class Watch {
        private final Server server;

        Watch(Server server) {
            this.server = server;
        }

        void run() {
            while (true) {
                try {
                    Thread.sleep(100);
                } catch (InterruptedException stop) {
                    return;
                }
                Table table = server.playing;
                if (table != null) {
                    table.watch(server);
                }
            }
        }
    }

    /** One client. Its thread reads lines; commands are answered here, other lines are answers for the game thread. */
    private static final class Link {
        private static final int MAX_LINE = 1 << 16;
        private static final String NOTHING = new String("nobody there");

        private final Server server;
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
            java.io.ByteArrayOutputStream line = new java.io.ByteArrayOutputStream(128);
            int c;
            while ((c = in.read()) >= 0) {
                if (c == '\n') {
                    String text = line.toString("UTF-8");
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
            int blank = line.indexOf(' ');
            String word = blank < 0 ? line : line.substring(0, blank);
            switch (word) {
                case "PING": send("PONG"); return true;
                case "STATUS": send(server.status()); return true;
                case "HELLO": send("HELLO 1 forge=" + Engine.version()); return true;
                case "QUIT": return false;
                case "SHUTDOWN": Runtime.getRuntime().halt(0); return false;
                case "NEWGAME": newGame(line); return true;
                default:
            }
            if (awaiting) {
                awaiting = false;
                answers.add(line);
            } else if (!line.isEmpty() || server.playing != null && server.playing.link == this) {
                send("ERROR: " + (isCommand(word) ? "unknown command " + word : "no decision is awaited"));
            }
            return true;
        }

        private static boolean isCommand(String word) {
            return word.matches("[A-Z]+");
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
                    throw new Stopped();
                }
                return answer;
            } catch (InterruptedException stop) {
                throw new Stopped();
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

    /** A NEWGAME line. */
    private static final class Request {
        final String[] decks = new String[2];
        final boolean[] remote = new boolean[2];
        final String[] profiles = {"Default", "Default"};
        boolean observe;
        boolean quiet;
        boolean skipPasses;
        boolean mulligans;
        double limit = 120;
        long seed = new java.security.SecureRandom().nextLong() >>> 1;
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
            Engine.deckFile(request.decks[0]);
            Engine.deckFile(request.decks[1]);
            return request;
        }

        private void option(String word, Iterator<String> words) {
            switch (word) {
                case "-i": remote[0] = remote[1] = true; break;
                case "-p": remote[(int) number(words, word, 1, 2) - 1] = true; break;
                case "-o": observe = true; break;
                case "-q": quiet = true; break;
                case "-a": skipPasses = true; break;
                case "-m": mulligans = true; break;
                case "-c": limit = number(words, word, 0.001, 1e9); break;
                case "-s": seed = seed(words); break;
                case "-f": first = (int) number(words, word, 0, 1); break;
                case "-A": setProfiles(next(words, word)); break;
                default: throw new Refusal("unknown option " + word);
            }
        }

        private void setProfiles(String text) {
            String[] names = text.split(",", -1);
            for (int seat = 0; seat < 2; seat++) {
                profiles[seat] = Request.profile(names[Math.min(seat, names.length - 1)]);
            }
        }

        static String profile(String name) {
            String wanted = name.trim();
            if (wanted.isEmpty()) {
                return "Default";
            }
            if (!AiProfileUtil.getAvailableProfiles().contains(wanted)) {
                List<String> known = new ArrayList<>(AiProfileUtil.getAvailableProfiles());
                Collections.sort(known);
                throw new Refusal("no AI profile " + wanted + " (there are " + String.join(", ", known) + ")");
            }
            return wanted;
        }

        private static String next(Iterator<String> words, String option) {
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

        private static double number(Iterator<String> words, String option, double low, double high) {
            String text = next(words, option);
            try {
                double value = Double.parseDouble(text);
                if (value >= low && value <= high) {
                    return value;
                }
            } catch (NumberFormatException wrong) {
                // told below
            }
            throw new Refusal(option + " needs a number from " + low + " to " + high + ", not " + text);
        }

        /** Words between blanks; "..." holds a word with blanks, \" and \\ stand for themselves inside. */
        static List<String> split(String line) {
            List<String> words = new ArrayList<>();
            StringBuilder word = null;
            boolean quoted = false;
            for (int i = 0; i < line.length(); i++) {
                char c = line.charAt(i);
                if (quoted && c == '\\' && i + 1 < line.length()) {
                    word.append(line.charAt(++i));
                } else if (c == '"') {
                    quoted = !quoted;
                    word = word == null ? new StringBuilder() : word;
                } else if (c == ' ' && !quoted) {
                    if (word != null) {
                        words.add(word.toString());
                    }
                    word = null;
                } else {
                    word = word == null ? new StringBuilder() : word;
                    word.append(c);
                }
            }
            if (quoted) {
                throw new Refusal("a quotation mark is not closed");
            }
            if (word != null) {
                words.add(word.toString());
            }
            return words;
        }
    }

    // ------------------------------------------------------------------------------------------------ one game

    /** One game from its NEWGAME line to its result, played by the one game thread. */
    private static final class Table {
        private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
        private static final long GRACE = 3_000_000_000L;

        final Link link;
        final Request request;
        private final Seat[] seats = new Seat[2];
        private final SeatPlayer[] players = new SeatPlayer[2];
        private Game game;
        /** What can happen in this game at all; null with --stock. */
        private Facts facts;
        private int decisions;
        private long started;
        private volatile Thread thread;
        private volatile long cpuStarted;
        private volatile boolean stopped;
        private volatile boolean timedOut;
        private volatile long overdueSince;
        /** Nanoseconds that were spent waiting for answers, and since when one is awaited (0: none). */
        private volatile long waited;
        private volatile long waitingSince;

        Table(Link link, Request request) {
            this.link = link;
            this.request = request;
        }

        void play() {
            thread = Thread.currentThread();
            cpuStarted = THREADS.getThreadCpuTime(thread.getId());
            started = System.nanoTime();
            Deck[] decks = new Deck[2];
            try {
                decks[0] = Engine.deck(request.decks[0]);
                decks[1] = Engine.deck(request.decks[1]);
            } catch (Refusal refusal) {
                link.send("ERROR: " + refusal.getMessage());
                return;
            }
            if (!request.quiet) {
                link.send("GAME_START: " + Engine.deckLabel(request.decks[0]) + " vs " + Engine.deckLabel(request.decks[1]));
                link.send("SEED: " + request.seed);
            }
            try {
                run(decks);
            } catch (Stopped | ThreadDeath end) {
                // reported below
            } catch (Throwable problem) {
                problem.printStackTrace();
                link.send("GAME_ERROR: " + oneLine(problem.toString()));
                timedOut = false;
                stopped = true;
            }
            Thread.interrupted();
            report();
        }

        private void run(Deck[] decks) {
            Engine.reset(request.seed);
            List<RegisteredPlayer> registered = new ArrayList<>();
            for (int seat = 0; seat < 2; seat++) {
                players[seat] = new SeatPlayer(this, seat);
                RegisteredPlayer player = new RegisteredPlayer(decks[seat]);
                player.setPlayer(players[seat]);
                registered.add(player);
            }
            GameRules rules = new GameRules(GameType.Constructed);
            rules.setAppliedVariants(EnumSet.of(GameType.Constructed));
            rules.setGamesPerMatch(1);
            Match match = new Match(rules, registered, "jaxrl");
            if (settings.stock) {
                game = match.createGame();
            } else {
                facts = new Facts(Arrays.asList(decks));
                game = new TableGame(registered, rules, match);
            }
            Engine.patient(game, request.limit);
            match.startGame(game);
        }

        private synchronized void report() {
            if (thread == null) {
                return; // the watch has already reported
            }
            long cpu = THREADS.getThreadCpuTime(thread.getId()) - cpuStarted;
            thread = null;
            if (timedOut) {
                link.send("GAME_TIMEOUT: more than " + request.limit + " s of computing");
            }
            long ms = (System.nanoTime() - started) / 1_000_000;
            int winner = timedOut || stopped ? -1 : winner();
            link.server.finished(cpu);
            link.send("GAME_RESULT: " + (winner < 0 ? "Draw" : players[winner].getName() + " won") + " in " + ms + "ms");
        }

        /** After a forced draw the engine counts everybody without an outcome as winner: two winners are a draw. */
        private int winner() {
            int winner = -1;
            for (int seat = 0; seat < 2; seat++) {
                PlayerOutcome outcome = game == null || !game.isGameOver() ? null : seats[seat].getPlayer().getOutcome();
                if (outcome != null && outcome.hasWon()) {
                    winner = winner == -1 ? seat : -2;
                }
            }
            return winner;
        }

        /** Called by any thread: the game ends at the next question or move. */
        void stop() {
            stopped = true;
            link.interrupt();
        }

        /** Called by the watch every tenth of a second. */
        void watch(Server server) {
            Thread runner = thread;
            if (runner == null) {
                return;
            }
            long now = System.nanoTime();
            if (!timedOut && !stopped) {
                timedOut = (THREADS.getThreadCpuTime(runner.getId()) - cpuStarted) / 1e9 > request.limit
                        || waitingSince == 0 && (now - started - waited) / 1e9 > 20 * request.limit + 60; // it hangs
            }
            if (!timedOut && !stopped) {
                return;
            }
            if (overdueSince == 0) {
                overdueSince = now;
            } else if (now - overdueSince > 2 * GRACE) {
                report();
                System.err.println("the game thread cannot be stopped");
                Runtime.getRuntime().halt(3); // the supervisor starts another JVM
            } else if (now - overdueSince > GRACE) {
                killStill(runner);
            }
        }

        /** Its thread may have reported meanwhile, and be in the next game already. */
        private synchronized void killStill(Thread runner) {
            if (thread == runner) {
                kill(runner);
            }
        }

        /** Thread.stop where it still exists (to Java 19); later versions throw. */
        private static void kill(Thread runner) {
            try {
                Thread.class.getMethod("stop").invoke(runner);
            } catch (ReflectiveOperationException | RuntimeException gone) {
                runner.interrupt();
            }
        }

        /** Whether the client holds both seats and Forge's AI is not asked at the moment. */
        boolean noAi() {
            return seats[0] != null && seats[1] != null && seats[0].remote && seats[1].remote && seats[0].thinking == 0
                    && seats[1].thinking == 0;
        }

        void check() {
            if (stopped || timedOut) {
                throw new Stopped();
            }
        }

        // ---- questions

        /**
         * Asks the client that holds a seat, or reports what Forge's AI chose there (observe mode).
         *
         * @param fields writes the fields of the decision's type
         * @param fallback the answer that is taken after two unusable ones
         * @param parse reads an answer; refuses an unusable one
         * @param ai lets Forge's AI decide
         * @param say a choice as an answer line, null when it cannot be said
         */
        <T> T ask(Seat seat, String type, Consumer<Json> fields, String fallback, Function<String, T> parse,
                Supplier<T> ai, Function<T, String> say) {
            check();
            decisions++;
            Json json = new Json();
            boolean observed = !seat.remote;
            json.open();
            if (observed) {
                json.put("info_type", "observed");
            }
            head(json, seat, type);
            fields.accept(json);
            json.key("game_state");
            new View(this, seat).state(json);
            if (observed) {
                T choice = seat.think(ai);
                String said = say.apply(choice);
                if (said == null) {
                    json.key("choice").text.append("null");
                } else {
                    json.put("choice", said);
                }
                link.send("INFO:" + json.close().text);
                return choice;
            }
            return answered(seat, "DECISION:" + json.close().text, fallback, parse, ai);
        }

        private void head(Json json, Seat seat, String type) {
            PhaseHandler phases = game.getPhaseHandler();
            json.put("decision_type", type).put("decision_id", decisions).put("player", players[seat.number].getName())
                    .put("seat", seat.number).put("turn", phases.getTurn())
                    .put("phase", phases.getPhase() == null ? "" : phases.getPhase().name());
        }

        private <T> T answered(Seat seat, String line, String fallback, Function<String, T> parse, Supplier<T> ai) {
            for (int attempt = 0; ; attempt++) {
                String answer = await(line);
                try {
                    if (answer.equals("ai")) {
                        return seat.lend(ai);
                    }
                    if (answer.startsWith("ai!")) {
                        seat.handOver(Request.profile(answer.substring(3)));
                        return seat.think(ai);
                    }
                    return parse.apply(answer);
                } catch (Refusal refusal) {
                    if (attempt > 0) {
                        link.send("ERROR: " + refusal.getMessage() + "; the default " + (fallback.isEmpty() ? "\"\"" : fallback) + " taken");
                        return parse.apply(fallback);
                    }
                    link.send("ERROR: " + refusal.getMessage());
                }
            }
        }

        private String await(String line) {
            waitingSince = System.nanoTime();
            try {
                String answer = link.ask(line).trim();
                check();
                return answer;
            } finally {
                waited += System.nanoTime() - waitingSince;
                waitingSince = 0;
            }
        }

        /** Tells a seat's client something that needs no answer. */
        void tell(Seat seat, String kind, Consumer<Json> fields) {
            if (seat.remote || request.observe) {
                Json json = new Json().open().put("info_type", kind).put("seat", seat.number);
                fields.accept(json);
                link.send("INFO:" + json.close().text);
            }
        }

        int seatOf(Player player) {
            for (int seat = 0; seat < 2; seat++) {
                if (seats[seat] != null && seats[seat].getPlayer() == player) {
                    return seat;
                }
            }
            return player == null ? -1 : Math.max(0, Math.min(1, player.getId()));
        }
    }

    /** The lobby player of a seat: it makes our controller instead of Forge's. */
    private static final class SeatPlayer extends LobbyPlayerAi {
        /** No profile: while a client holds a seat, the automatic payment must not keep lands back for later. */
        static final String NEUTRAL = "";

        private final Table table;
        private final int number;

        SeatPlayer(Table table, int number) {
            super((table.request.remote[number] ? "Agent(" : "Ai(") + (number + 1) + ")-"
                    + Engine.deckLabel(table.request.decks[number]), null);
            this.table = table;
            this.number = number;
            setAiProfile(table.request.remote[number] ? NEUTRAL : table.request.profiles[number]);
        }

        @Override
        public Player createIngamePlayer(Game game, int id) {
            Player player = settings.stock ? new Player(getName(), game, id) : new TablePlayer(getName(), game, id, table);
            Seat seat = Bridge.seat(game, player, this, table, number);
            table.seats[number] = seat;
            player.setFirstController(seat);
            return player;
        }
    }

    /** What one seat may see of a game, as JSON. */
    private static final class View {
        private final Table table;
        private final Seat viewer;

        View(Table table, Seat viewer) {
            this.table = table;
            this.viewer = viewer;
        }

        void state(Json json) {
            Game game = table.game;
            PhaseHandler phases = game.getPhaseHandler();
            json.open().put("turn", phases.getTurn())
                    .put("phase", phases.getPhase() == null ? "" : phases.getPhase().name())
                    .put("active", table.seatOf(phases.getPlayerTurn()))
                    .put("priority", table.seatOf(phases.getPriorityPlayer())).put("you", viewer.number);
            json.array("players");
            for (Seat seat : table.seats) {
                player(json, seat);
            }
            json.end().array("stack");
            for (SpellAbilityStackInstance item : game.getStack()) {
                stackItem(json, item);
            }
            json.end().array("combat");
            if (game.getCombat() != null) {
                combat(json, game.getCombat());
            }
            json.end().close();
        }

        private void player(Json json, Seat seat) {
            Player player = seat.getPlayer();
            json.open().put("seat", seat.number).put("name", player.getName()).put("life", player.getLife())
                    .put("poison", player.getPoisonCounters());
            if (seat == viewer) {
                cards(json, "hand", player, ZoneType.Hand);
            }
            json.put("hand_size", player.getCardsIn(ZoneType.Hand).size())
                    .put("library_size", player.getCardsIn(ZoneType.Library).size());
            cards(json, "battlefield", player, ZoneType.Battlefield);
            cards(json, "graveyard", player, ZoneType.Graveyard);
            cards(json, "exile", player, ZoneType.Exile);
            json.put("mana_pool", mana(player.getManaPool())).put("lands_played", player.getLandsPlayedThisTurn())
                    .put("energy", player.getCounters(forge.game.card.CounterEnumType.ENERGY)).close();
        }

        private static String mana(ManaPool pool) {
            if (pool.isEmpty()) {
                return "";
            }
            StringBuilder letters = new StringBuilder();
            byte[] colors = {MagicColor.WHITE, MagicColor.BLUE, MagicColor.BLACK, MagicColor.RED, MagicColor.GREEN, 32};
            for (int i = 0; i < colors.length; i++) {
                for (int n = pool.getAmountOfColor(colors[i]); n > 0; n--) {
                    letters.append("WUBRGC".charAt(i));
                }
            }
            return letters.toString();
        }

        private void cards(Json json, String name, Player player, ZoneType zone) {
            json.array(name);
            for (Card card : player.getCardsIn(zone)) {
                card(json, card, zone == ZoneType.Battlefield);
            }
            json.end();
        }

        /** Whether a card's face must not be told to the viewer. */
        boolean hidden(Card card) {
            ZoneType zone = card.getZone() == null ? ZoneType.None : card.getZone().getZoneType();
            switch (zone) {
                case Hand:
                    return card.getController() != viewer.getPlayer() && !viewer.shown.contains(card.getId());
                case Library:
                    return !viewer.shown.contains(card.getId());
                case Battlefield:
                case Stack:
                    return card.isFaceDown() && card.getController() != viewer.getPlayer();
                case Exile:
                    return card.isFaceDown() && !card.mayPlayerLook(viewer.getPlayer());
                default:
                    return false;
            }
        }

        /**
         * The id under which a viewer knows a card. Forge numbers cards in the order of the deck list, so the number of
         * a hidden card would tell which one it is: hidden cards get numbers in the order in which they are met.
         */
        int id(Card card) {
            if (!hidden(card)) {
                return card.getId();
            }
            return viewer.aliases.computeIfAbsent(card.getId(), id -> 1_000_000 + viewer.aliases.size());
        }

        String name(Card card) {
            if (hidden(card)) {
                return "";
            }
            return card.isFaceDown() ? card.getState(forge.card.CardStateName.Original).getName() : card.getName();
        }

        void card(Json json, Card card, boolean inPlay) {
            json.open().put("id", id(card)).put("name", name(card));
            if (card.isFaceDown() || hidden(card)) {
                json.put("face_down", true);
            }
            if (!hidden(card) || inPlay) {
                face(json, card);
            }
            if (inPlay) {
                permanent(json, card);
            }
            json.put("owner", table.seatOf(card.getOwner()));
            if (!hidden(card) || inPlay) {
                json.put("colors", colors(card.getColor()));
            }
            json.close();
        }

        private static void face(Json json, Card card) {
            String types = card.getType().toString();
            json.put("mana_cost", card.getManaCost().isNoCost() ? "" : card.getManaCost().toString())
                    .put("cmc", card.getCMC()).put("types", types.replace(" - ", " "));
            if (card.isCreature()) {
                json.put("power", card.getNetPower()).put("toughness", card.getNetToughness());
            }
            if (card.isPlaneswalker()) {
                json.put("loyalty", card.getCurrentLoyalty());
            }
            json.array("keywords");
            for (KeywordInterface keyword : card.getKeywords()) {
                json.item(keyword.getOriginal());
            }
            json.end();
        }

        private void permanent(Json json, Card card) {
            json.put("tapped", card.isTapped()).put("summoning_sick", card.isSick()).put("damage", card.getDamage());
            json.key("counters").open();
            counters(json, card.getCounters());
            json.close().array("attachments");
            for (Card attached : card.getAttachedCards()) {
                json.item(id(attached));
            }
            json.end().put("attached_to", card.getAttachedTo() == null ? -1 : id(card.getAttachedTo()))
                    .put("token", card.isToken());
        }

        /** A map in the engine's older versions, a multiset in later ones. */
        private static void counters(Json json, Object counters) {
            if (counters instanceof Map) {
                for (Map.Entry<?, ?> counter : ((Map<?, ?>) counters).entrySet()) {
                    json.put(counter.getKey().toString(), (Integer) counter.getValue());
                }
            } else {
                for (Multiset.Entry<?> counter : ((Multiset<?>) counters).entrySet()) {
                    json.put(counter.getElement().toString(), counter.getCount());
                }
            }
        }

        static String colors(ColorSet colors) {
            StringBuilder letters = new StringBuilder(5);
            for (int i = 0; i < 5; i++) {
                if ((colors.getColor() & 1 << i) != 0) {
                    letters.append("WUBRG".charAt(i));
                }
            }
            return letters.toString();
        }

        private void stackItem(Json json, SpellAbilityStackInstance item) {
            Card source = item.getSourceCard();
            json.open().put("card_id", id(source)).put("name", name(source))
                    .put("controller", table.seatOf(item.getActivatingPlayer()))
                    .put("description", hidden(source) ? "" : item.getStackDescription()).array("targets");
            for (SpellAbilityStackInstance part = item; part != null; part = part.getSubInstance()) {
                TargetChoices targets = part.getTargetChoices();
                if (targets != null) {
                    for (GameObject target : targets) {
                        object(json.open(), target).close();
                    }
                }
            }
            json.end().close();
        }

        /** The kind and id of something that can be chosen. */
        Json object(Json json, GameObject thing) {
            if (thing instanceof Player) {
                return json.put("kind", "player").put("id", table.seatOf((Player) thing));
            }
            if (thing instanceof SpellAbility) {
                return json.put("kind", "spell").put("id", id(((SpellAbility) thing).getHostCard()));
            }
            return json.put("kind", "card").put("id", thing instanceof Card ? id((Card) thing) : -1);
        }

        private void combat(Json json, Combat combat) {
            for (Card attacker : combat.getAttackers()) {
                json.open().put("attacker", id(attacker)).key("defender");
                object(json.open(), combat.getDefenderByAttacker(attacker)).close().array("blockers");
                for (Card blocker : combat.getBlockers(attacker)) {
                    json.item(id(blocker));
                }
                json.end().close();
            }
        }

        // ---- options

        /** An option that is a card, a player or a spell. */
        void option(Json json, int index, GameObject thing) {
            json.open().put("index", index);
            object(json, thing);
            if (thing instanceof Player) {
                json.put("name", ((Player) thing).getName());
            } else if (thing instanceof SpellAbility) {
                SpellAbility spell = (SpellAbility) thing;
                json.put("name", name(spell.getHostCard()))
                        .put("description", hidden(spell.getHostCard()) ? "" : spell.getStackDescription())
                        .put("controller", table.seatOf(spell.getActivatingPlayer()));
            } else if (thing instanceof Card) {
                cardOption(json, (Card) thing);
            }
            json.close();
        }

        private void cardOption(Json json, Card card) {
            ZoneType zone = card.getZone() == null ? ZoneType.None : card.getZone().getZoneType();
            json.put("name", name(card)).put("controller", table.seatOf(card.getController())).put("zone", zone.name());
            boolean listed = zone == ZoneType.Battlefield || zone == ZoneType.Graveyard || zone == ZoneType.Exile
                    || zone == ZoneType.Hand && card.getController() == viewer.getPlayer();
            if (!listed && !hidden(card)) {
                json.key("card");
                card(json, card, false);
            }
        }

        void source(Json json, SpellAbility ability) {
            Card card = ability == null ? null : ability.getHostCard();
            if (card != null) {
                json.key("source").open().put("card_id", id(card)).put("name", name(card))
                        .put("description", hidden(card) ? "" : oneLine(describe(ability))).close();
            }
        }

        static String describe(SpellAbility ability) {
            String text = ability.getDescription();
            return text == null || text.isEmpty() ? String.valueOf(ability) : text;
        }
    }

    // ------------------------------------------------------------------------------------------------ legal moves

    /** Which actions a player can really take now, and how an action is carried out. */
    private static final class Moves {
        private static final Method ADDITIONAL = Reflect.method(CostPayment.class, "canPayAdditionalCosts", 2, 3);
        /** handlePlayingSpellAbility(player, ability, game, targets), later without the game. */
        private static final Method PLAY = Reflect.method(ComputerUtil.class, "handlePlayingSpellAbility", 4, 3);
        private static final Method NO_STACK = Reflect.method(ComputerUtil.class, "playNoStack", 4);
        static final Method FOR_FREE = Reflect.method(ComputerUtil.class, "playSpellAbilityForFree", 2);
        static final Method WITHOUT_MANA = Reflect.method(ComputerUtil.class, "playSpellAbilityWithoutPayingManaCost", 3);
        static final Method ROLLBACK = Reflect.method(GameActionUtil.class, "rollbackAbility", 5);
        private static final Method WILL_PAY = Reflect.method(ComputerUtilCost.class, "willPayUnlessCost", 5);
        private static final Method X_CAN_BE_0 = Reflect.method(CostPartMana.class, "canXbe0", 0);
        private static final Method LEAST_X = Reflect.method(CostPartMana.class, "getXMin", 0);
        private static final int MOST_X = 60;

        private Moves() {}

        static List<SpellAbility> legal(Player player, Facts facts) {
            List<SpellAbility> result = new ArrayList<>();
            Prospects prospects = facts == null ? null : new Prospects(player, facts);
            for (Card card : ComputerUtilAbility.getAvailableCards(player.getGame(), player)) {
                if (prospects != null && prospects.none(card)) {
                    continue;
                }
                for (SpellAbility ability : card.getAllPossibleAbilities(player, true)) {
                    if (ability.isManaAbility()) {
                        continue;
                    }
                    ability.setActivatingPlayer(player);
                    if (ability instanceof LandAbility
                            || canPay(ability, player, prospects == null ? null : prospects.purse) && hasTargets(ability)) {
                        result.add(ability);
                    }
                }
            }
            return result;
        }

        /** Looking for moves must not change what happens later, but Forge's payment throws dice: with this generator. */
        private static final Random SCRATCH = new Random();

        /** Whether Forge's automatic payment will succeed, X being as small as it may be. */
        static boolean canPay(SpellAbility ability, Player player) {
            Random real = MyRandom.getRandom();
            SCRATCH.setSeed(7);
            Engine.setRandom(SCRATCH);
            try {
                return payable(ability, player);
            } finally {
                Engine.setRandom(real);
            }
        }

        /** The same, without asking the engine where a purse knows. */
        static boolean canPay(SpellAbility ability, Player player, Purse purse) {
            Boolean known = purse == null ? null : purse.suffices(ability);
            return known == null ? canPay(ability, player) : known;
        }

        private static boolean payable(SpellAbility ability, Player player) {
            if (ability.isPwAbility()) {
                // ComputerUtilCost.canPayCost would not spend the last loyalty; that is a matter of taste, not of rules
                return ComputerUtilMana.canPayManaCost(ability, player, 0, false) && additional(ability);
            }
            return ComputerUtilCost.canPayCost(ability, player, false);
        }

        private static boolean additional(SpellAbility ability) {
            Cost cost = ability.getPayCosts();
            return (Boolean) (ADDITIONAL.getParameterCount() == 2 ? Reflect.call(ADDITIONAL, null, cost, ability)
                    : Reflect.call(ADDITIONAL, null, cost, ability, false));
        }

        static boolean hasTargets(SpellAbility ability) {
            if (ability.getApi() == ApiType.Charm) {
                List<AbilitySub> modes = CharmEffect.makePossibleOptions(ability);
                return modes.size() >= 1 && feasible(ability, modes).size() >= fewest(ability, modes.size());
            }
            for (SpellAbility part = ability; part != null; part = part.getSubAbility()) {
                if (part.usesTargeting() && options(part).size() < part.getMinTargets()) {
                    return false;
                }
            }
            return true;
        }

        private static int fewest(SpellAbility charm, int modes) {
            Card host = charm.getHostCard();
            String text = charm.hasParam("MinCharmNum") ? charm.getParam("MinCharmNum")
                    : charm.getParamOrDefault("CharmNum", "1");
            int least = AbilityUtils.calculateAmount(host, text, charm);
            return charm.hasParam("CanRepeatModes") ? Math.min(1, least) : least;
        }

        /** Modes all of whose targets exist. */
        static List<AbilitySub> feasible(SpellAbility charm, List<AbilitySub> modes) {
            List<AbilitySub> result = new ArrayList<>();
            for (AbilitySub mode : modes) {
                for (SpellAbility part = mode; part != null; part = part.getSubAbility()) {
                    part.setActivatingPlayer(charm.getActivatingPlayer());
                }
                if (hasTargets(mode)) {
                    result.add(mode);
                }
            }
            return result;
        }

        /** What an ability may target: players, cards and, if it looks at the stack, spells. */
        static List<GameObject> options(SpellAbility ability) {
            TargetRestrictions restrictions = ability.getTargetRestrictions();
            boolean stack = restrictions.getZone().contains(ZoneType.Stack);
            List<GameObject> result = new ArrayList<>();
            for (GameObject candidate : restrictions.getAllCandidates(ability, true)) {
                if (!ability.getTargets().contains(candidate)
                        && !(stack && candidate instanceof Card && ((Card) candidate).isInZone(ZoneType.Stack))) {
                    result.add(candidate);
                }
            }
            if (stack) {
                for (SpellAbilityStackInstance item : ability.getActivatingPlayer().getGame().getStack()) {
                    SpellAbility spell = spellOf(item);
                    if (ability.canTargetSpellAbility(spell) && !ability.getTargets().contains(spell)) {
                        result.add(spell);
                    }
                }
            }
            return result;
        }

        private static final Method SPELL_OF = Reflect.method(SpellAbilityStackInstance.class, "getSpellAbility", 1, 0);

        static SpellAbility spellOf(SpellAbilityStackInstance item) {
            return (SpellAbility) (SPELL_OF.getParameterCount() == 1 ? Reflect.call(SPELL_OF, item, false)
                    : Reflect.call(SPELL_OF, item));
        }

        /** Whether one target can make another one illegal, so that targets have to be chosen one by one. */
        static boolean dependent(SpellAbility ability, List<GameObject> options) {
            if (ability.hasParam("MaxTotalTargetCMC") || ability.hasParam("MaxTotalTargetPower")) {
                return true;
            }
            for (GameObject first : options) {
                ability.getTargets().add(first);
                try {
                    for (GameObject other : options) {
                        if (other != first && !(other instanceof SpellAbility) && !ability.canTarget(other)) {
                            return true;
                        }
                    }
                } finally {
                    ability.getTargets().remove(first);
                }
            }
            return false;
        }

        /** Plays an ability whose targets are chosen, or are as soon as it lies on the stack (null: they are). */
        static boolean carryOut(Player player, SpellAbility ability, Consumer<SpellAbility> targets) {
            Runnable plain = targets == null ? null : () -> targets.accept(ability);
            return (Boolean) Reflect.fit(PLAY, null, player, ability, player.getGame(), plain, targets);
        }

        /** Pays and resolves; whether it could be paid, which earlier versions do not tell. */
        static boolean playNoStack(Player player, SpellAbility ability) {
            Object done = Reflect.call(NO_STACK, null, player, ability, player.getGame(), true);
            return done == null || (Boolean) done;
        }

        /** Whether Forge's AI would pay lest something happens; later its class for the kind of ability knows. */
        static boolean willPay(Player player, SpellAbility ability, Cost cost, boolean paid, FCollectionView<Player> payers) {
            if (WILL_PAY != null) {
                return (Boolean) Reflect.fit(WILL_PAY, null, ability, player, cost, paid, payers);
            }
            Object logic = Reflect.fit(Reflect.method(SpellApiToAi.class, "get", 1), SpellApiToAi.Converter, ability, ability.getApi());
            Method method = Reflect.method(logic.getClass(), "willPayUnlessCost", 5);
            return method != null && (Boolean) Reflect.fit(method, logic, ability, player, cost, paid, payers);
        }

        static boolean xCanBe0(Cost cost) {
            CostPartMana mana = cost.getCostMana();
            return X_CAN_BE_0 != null ? (Boolean) Reflect.call(X_CAN_BE_0, mana)
                    : LEAST_X == null || (Integer) Reflect.call(LEAST_X, mana) == 0;
        }

        /** The greatest X that can be paid, from `least` up; -1 if not even that. */
        static int greatestX(SpellAbility ability, Player player, int least, Facts facts) {
            Purse purse = facts == null ? null : new Purse(player, facts);
            int limit = MOST_X;
            if (ability.hasParam("XMaxLimit")) {
                limit = AbilityUtils.calculateAmount(ability.getHostCard(), ability.getParam("XMaxLimit"), ability);
            }
            Integer before = ability.getXManaCostPaid();
            int greatest = -1;
            for (int x = least; x <= limit; x++) {
                ability.setXManaCostPaid(x);
                if (!canPay(ability, player, purse)) {
                    break;
                }
                greatest = x;
            }
            ability.setXManaCostPaid(before);
            return greatest;
        }
    }

    // ------------------------------------------------------------------------------------------------ short cuts
    //
    // Half of a game's computing went into looking for legal moves and into checks of a state that had not changed. The
    // classes below leave out what cannot matter. None changes a result: `--stock` plays without them, and the tests
    // compare the decisions byte by byte. README.md has the figures.

    /** What the cards of two decks can do at all: decides which short cuts hold in a game. */
    private static final class Facts {
        /** Whether spells may cost less or more than is printed on them. */
        final boolean costs;
        /** Whether a source of mana may give more than its ability says. */
        final boolean richMana;
        /** Whether sorceries may be cast like instants. */
        final boolean flash;
        /** Whether lands may be kept from giving mana, or give other mana than they say. */
        final boolean curbs;

        Facts(Iterable<Deck> decks) {
            StringBuilder all = new StringBuilder(1 << 16);
            Set<String> seen = new HashSet<>();
            for (Deck deck : decks) {
                for (Map.Entry<forge.deck.DeckSection, CardPool> section : deck) {
                    for (Map.Entry<PaperCard, Integer> entry : section.getValue()) {
                        if (seen.add(entry.getKey().getName())) {
                            script(all, entry.getKey().getRules().getMainPart());
                            script(all, entry.getKey().getRules().getOtherPart());
                        }
                    }
                }
            }
            // cards that bring cards from nowhere may do anything
            boolean anything = has(all, "AnySupportedCard|ValidSupportedCopy|MakeCard|Conjure|Spellbook|Perpetual|DigitalOnly");
            costs = anything || has(all, "(Reduce|Raise|Set|Alternative)Cost|Mode\\$ *[A-Za-z]*Cost|NeedExtraMana|tamiyos_notebook|pay 0");
            curbs = anything || has(all, "CantBeActivated|can't be activated|Mode\\$ *CantTap|ManaConver");
            richMana = anything || has(all, "TapsForMana|ProduceMana|ManaReflected|Piracy");
            flash = anything || has(all, "CastWithFlash");
        }

        private static void script(StringBuilder all, forge.card.ICardFace face) {
            if (face != null) {
                for (Iterable<String> part : Arrays.asList(face.getAbilities(), face.getTriggers(), face.getReplacements(),
                        face.getStaticAbilities(), face.getKeywords())) {
                    for (String line : part == null ? Collections.<String>emptyList() : part) {
                        all.append(line).append('\n');
                    }
                }
                for (Map.Entry<String, String> variable : face.getVariables()) {
                    all.append(variable.getValue()).append('\n');
                }
            }
        }

        private static boolean has(CharSequence text, String pattern) {
            return java.util.regex.Pattern.compile(pattern).matcher(text).find();
        }
    }

    /** A player without what Forge's user interface wants to know of zones; that was a sixth of the computing. */
    private static final class TablePlayer extends Player {
        private final Table table;

        TablePlayer(String name, Game game, int id, Table table) {
            super(name, game, id);
            this.table = table;
        }

        public void updateZoneForView(PlayerZone zone) {
            // nobody looks
        }

        /**
         * The cards that can be played from elsewhere, as a zone of their own. Forge's AI looks at it; a check of state-based
         * effects (which freezes the stack) walks through all zones, this one too, but meets these cards in their own zones.
         */
        public CardCollectionView getCardsActivableInExternalZones(boolean commandZone) {
            try {
                return table.noAi() && getGame().getStack().isFrozen() ? CardCollection.EMPTY
                        : (CardCollectionView) EXTERNAL.invokeExact(this, commandZone);
            } catch (RuntimeException | Error problem) {
                throw problem;
            } catch (Throwable problem) {
                throw new IllegalStateException(problem);
            }
        }

        /** The engine's own; null in versions that spell it otherwise, which call neither. */
        private static final MethodHandle EXTERNAL = external();

        private static MethodHandle external() {
            try {
                return MethodHandles.lookup().findSpecial(Player.class, "getCardsActivableInExternalZones",
                        MethodType.methodType(CardCollectionView.class, boolean.class), TablePlayer.class);
            } catch (ReflectiveOperationException absent) {
                return null;
            }
        }
    }

    /**
     * A game that leaves out cards without static abilities when the engine collects static abilities, and likewise with
     * replacement effects and triggers. The engine asks every card in every zone, a hundred times a turn, and most have none.
     */
    private static final class TableGame extends Game {
        private static final int STATIC = 1;
        private static final int REPLACEMENT = 2;
        private static final int TRIGGER = 4;
        private static final Map<Class<?>, Collector> COLLECTORS = new java.util.concurrent.ConcurrentHashMap<>();
        private static final MethodHandle CHANGES = table("getChangedCardTraits");
        private static final MethodHandle TEXT_CHANGES = table("getChangedCardTraitsByText");

        /** What the printed (or copied) abilities of a card are: bits of the three kinds, for its current face. */
        private final Map<Card, Object[]> kinds = new IdentityHashMap<>();

        TableGame(Iterable<RegisteredPlayer> players, GameRules rules, Match match) {
            super(players, rules, match);
        }

        @Override
        public void forEachCardInGame(Visitor<Card> visitor) {
            Collector collector = COLLECTORS.computeIfAbsent(visitor.getClass(), Collector::new);
            if (collector.kind == 0) {
                super.forEachCardInGame(visitor);
                return;
            }
            CardCollectionView copies = collector.copies(visitor);
            super.forEachCardInGame(new Visitor<Card>() {
                @Override
                public boolean visit(Card card) {
                    return !copies.contains(card) && hasNone(card, collector.kind) || visitor.visit(card);
                }
            });
        }

        /** What one of the engine's visitors collects. */
        private static final class Collector {
            final int kind;
            private Field copies;

            Collector(Class<?> visitor) {
                String name = visitor.getName();
                kind = CHANGES == null || TEXT_CHANGES == null ? 0 : name.startsWith("forge.game.GameAction$") ? STATIC
                        : name.startsWith("forge.game.replacement.ReplacementHandler$") ? REPLACEMENT
                        : name.startsWith("forge.game.trigger.TriggerHandler$") ? TRIGGER : 0;
                for (Field field : visitor.getDeclaredFields()) {
                    if (CardCollectionView.class.isAssignableFrom(field.getType())) {
                        copies = field;
                        field.setAccessible(true);
                    }
                }
            }

            /** Cards in whose place the visitor looks at a changed copy: as they will be on the battlefield. */
            CardCollectionView copies(Visitor<Card> visitor) {
                try {
                    Object value = copies == null ? null : copies.get(visitor);
                    return value == null ? CardCollection.EMPTY : (CardCollectionView) value;
                } catch (IllegalAccessException hidden) {
                    throw new IllegalStateException(hidden);
                }
            }
        }

        /** True only if a card's list of that kind is empty: nothing printed, nothing changed, nothing from keywords. */
        private boolean hasNone(Card card, int kind) {
            if (card.hasCounters() || kind == STATIC && !card.getStaticCommandList().isEmpty()) {
                return false;
            }
            if (isChanged(card)) {
                return false;
            }
            for (KeywordInterface keyword : card.getUnhiddenKeywords()) {
                Collection<?> given = kind == STATIC ? keyword.getStaticAbilities()
                        : kind == REPLACEMENT ? keyword.getReplacements() : keyword.getTriggers();
                if (!given.isEmpty()) {
                    return false;
                }
            }
            return (printed(card) & kind) == 0;
        }

        /** Whether effects have given abilities to a card or taken some. */
        private static boolean isChanged(Card card) {
            try {
                return !((com.google.common.collect.Table<?, ?, ?>) CHANGES.invokeExact(card)).isEmpty()
                        || !((com.google.common.collect.Table<?, ?, ?>) TEXT_CHANGES.invokeExact(card)).isEmpty();
            } catch (Throwable problem) {
                throw new IllegalStateException(problem);
            }
        }

        /** A method of Card that returns one of its tables of changes; null in a Forge that has it otherwise. */
        private static MethodHandle table(String name) {
            try {
                Method method = Card.class.getMethod(name);
                return MethodHandles.publicLookup().unreflect(method)
                        .asType(MethodType.methodType(com.google.common.collect.Table.class, Card.class));
            } catch (ReflectiveOperationException | java.lang.invoke.WrongMethodTypeException absent) {
                return null;
            }
        }

        private int printed(Card card) {
            Object[] known = kinds.get(card);
            if (known == null || known[0] != card.getCurrentState()) {
                int bits = (card.getStaticAbilities().isEmpty() ? 0 : STATIC) | (card.getTriggers().isEmpty() ? 0 : TRIGGER)
                        | (card.getReplacementEffects().isEmpty() ? 0 : REPLACEMENT);
                known = new Object[] {card.getCurrentState(), bits};
                kinds.put(card, known);
            }
            return (Integer) known[1];
        }
    }

    /**
     * Leaves out one of two checks of state-based effects. The engine checks whenever a player gets priority; when the other
     * player has just passed, nothing has happened since the last check. A check does nothing while something resolves.
     */
    private static final class Checks {
        private static final Field FIRST = Reflect.field(PhaseHandler.class, "pFirstPriority");

        /** After a pass: if priority goes to the other player now, that player's check is left out. */
        static void skipNext(Game game) {
            try {
                PhaseHandler phases = game.getPhaseHandler();
                Player next = game.getNextPlayerAfter(phases.getPriorityPlayer());
                if (FIRST != null && next != null && FIRST.get(phases) != next && !game.getStack().hasSimultaneousStackEntries()) {
                    game.getStack().setResolving(true);
                }
            } catch (IllegalAccessException hidden) {
                throw new IllegalStateException(hidden);
            }
        }

        static void resume(Game game) {
            game.getStack().setResolving(false);
        }
    }

    /** Tells cheaply of most cards that they have nothing to offer now, before the engine is asked at length. */
    private static final class Prospects {
        /** Keywords that have nothing to do with when, from where and for how much a card can be played. */
        private static final Set<String> HARMLESS = new HashSet<>(Arrays.asList("Flying", "First Strike", "Double Strike",
                "Deathtouch", "Defender", "Haste", "Hexproof", "Indestructible", "Lifelink", "Menace", "Reach", "Shroud",
                "Trample", "Vigilance", "Prowess", "Fear", "Intimidate", "Wither", "Infect", "Changeling", "Exalted",
                "CARDNAME enters the battlefield tapped."));
        private static final java.util.regex.Pattern PLAIN_COST =
                java.util.regex.Pattern.compile("(\\{([0-9]+|[WUBRGCX]|[WUBRG]/[WUBRG])\\})*");
        private static final int ENDLESS = 1_000_000;

        private final Player player;
        private final Facts facts;
        private final boolean sorceryTime;
        private final boolean landTime;
        private final int mana;
        final Purse purse;

        Prospects(Player player, Facts facts) {
            this.player = player;
            this.facts = facts;
            sorceryTime = player.canCastSorcery();
            landTime = sorceryTime
                    && (player.getMaxLandPlaysInfinite() || player.getLandsPlayedThisTurn() < player.getMaxLandPlays());
            mana = facts.costs || facts.richMana ? ENDLESS : mostMana();
            purse = new Purse(player, facts);
        }

        /** True only if the engine would offer nothing (but mana) of this card. */
        boolean none(Card card) {
            Zone zone = card.getZone();
            if (zone == null || card.isFaceDown()) {
                return false;
            }
            if (zone.is(ZoneType.Battlefield)) {
                return noneInPlay(card);
            }
            if (card.hasAlternateState() || !harmless(card) || !card.mayPlay(player).isEmpty()) {
                return false;
            }
            return zone.is(ZoneType.Hand) ? noneInHand(card) : noneElsewhere(card, zone);
        }

        private static boolean harmless(Card card) {
            for (KeywordInterface keyword : card.getKeywords()) {
                String text = keyword.getOriginal();
                if (!HARMLESS.contains(text) && !text.startsWith("etbCounter") && !text.startsWith("Protection")) {
                    return false;
                }
            }
            return true;
        }

        private boolean noneInPlay(Card card) {
            boolean mine = card.getController() == player;
            for (SpellAbility ability : card.getNonManaAbilities()) {
                if (ability.isSpell() || !mine && "You".equals(ability.getRestrictions().getActivator())) {
                    continue;
                }
                boolean late = !sorceryTime && !facts.flash && !ability.getRestrictions().isInstantSpeed()
                        && (ability.isPwAbility() || ability.getRestrictions().isSorcerySpeed());
                boolean spent = ability.getPayCosts() != null && ability.getPayCosts().hasTapCost() && card.isTapped();
                if (!late && !spent && !tooDear(ability)) {
                    return false;
                }
            }
            return true;
        }

        private boolean noneInHand(Card card) {
            if (card.isLand() && landTime) {
                return false;
            }
            boolean instant = sorceryTime || facts.flash || card.isInstant();
            for (SpellAbility ability : card.getNonManaAbilities()) {
                boolean late = ability.isSpell() && !instant && !ability.getRestrictions().isInstantSpeed();
                if (!late && (!tooDear(ability) || !card.getStaticAbilities().isEmpty())) {
                    return false;
                }
            }
            return true;
        }

        /** In a graveyard, in exile, on a library: nothing but what names that zone. */
        private static boolean noneElsewhere(Card card, Zone zone) {
            for (SpellAbility ability : card.getNonManaAbilities()) {
                ZoneType from = ability.getRestrictions().getZone();
                if (from == null || zone.is(from) || ability.hasParam("AdditionalActivationZone")) {
                    return false;
                }
            }
            return true;
        }

        private boolean tooDear(SpellAbility ability) {
            Cost cost = ability.getPayCosts();
            return mana < ENDLESS && cost != null && cost.hasManaCost() && least(cost.getTotalMana().toString()) > mana;
        }

        /** How much mana a cost takes at least; 0 for costs with symbols that can be paid in other ways. */
        private static int least(String cost) {
            if (!PLAIN_COST.matcher(cost).matches()) {
                return 0;
            }
            int sum = 0;
            for (String symbol : cost.split("[{}]+")) {
                sum += symbol.isEmpty() || symbol.equals("X") ? 0 : Character.isDigit(symbol.charAt(0)) ? Integer.parseInt(symbol) : 1;
            }
            return sum;
        }

        /** An upper bound of the mana that the player can have now. */
        private int mostMana() {
            int sum = player.getManaPool().totalMana();
            for (Card card : player.getCardsIn(ZoneType.Battlefield)) {
                int most = 0;
                for (SpellAbility ability : card.getManaAbilities()) {
                    boolean tap = ability.getPayCosts() != null && ability.getPayCosts().hasTapCost();
                    most = Math.max(most, !tap ? ENDLESS : card.isTapped() ? 0 : amount(ability));
                }
                sum = Math.min(ENDLESS, sum + most);
            }
            for (Card card : player.getCardsIn(ZoneType.Hand)) { // cards that give mana out of the hand
                for (SpellAbility ability : card.getManaAbilities()) {
                    if (ability.getRestrictions().getZone() != ZoneType.Battlefield) {
                        return ENDLESS;
                    }
                }
            }
            return sum;
        }

        private static int amount(SpellAbility ability) {
            String amount = ability.getParamOrDefault("Amount", "1");
            String produced = ability.getParamOrDefault("Produced", "Special");
            for (SpellAbility part = ability.getSubAbility(); part != null; part = part.getSubAbility()) {
                if (part.getApi() == ApiType.Mana) {
                    return ENDLESS;
                }
            }
            if (!amount.matches("[0-9]{1,4}") || !produced.matches("Any|Chosen|Combo .*|[WUBRGC]( [WUBRGC])*")) {
                return ENDLESS;
            }
            int symbols = produced.matches("[WUBRGC]( .*)?") ? produced.split(" ").length : 1;
            return Integer.parseInt(amount) * symbols;
        }
    }

    /**
     * Answers whether a cost can be paid where that is plain: the cost is printed mana only, and so is what the lands give.
     * Elsewhere it does not know, and Forge's automatic payment is tried, which takes a hundred times as long.
     */
    private static final class Purse {
        private static final java.util.regex.Pattern COLORS = java.util.regex.Pattern.compile("(\\{([0-9]+|[WUBRGCX])\\})*");
        private static final Set<String> PLAIN = new HashSet<>(Arrays.asList("AB", "Cost", "Produced", "Amount",
                "SpellDescription", "Secondary"));
        private static final String LETTERS = "WUBRGC";

        private final Player player;
        private final Facts facts;
        /** For each source that can be used, which of LETTERS it gives; null where the sources are not plain. */
        private List<Integer> sources;

        Purse(Player player, Facts facts) {
            this.player = player;
            this.facts = facts;
            if (!facts.costs && !facts.richMana && !facts.curbs && player.getManaPool().isEmpty()) {
                sources = sources();
            }
        }

        private List<Integer> sources() {
            List<Integer> result = new ArrayList<>();
            for (Card card : player.getCardsIn(ZoneType.Battlefield)) {
                int colors = 0;
                for (SpellAbility ability : card.getManaAbilities()) {
                    int given = given(ability);
                    if (given < 0) {
                        return null;
                    }
                    colors |= given;
                }
                if (colors != 0 && !card.isTapped() && !card.isSick()) {
                    result.add(colors);
                }
            }
            for (Card card : player.getCardsIn(ZoneType.Hand)) {
                for (SpellAbility ability : card.getManaAbilities()) {
                    if (ability.getRestrictions().getZone() != ZoneType.Battlefield) {
                        return null;
                    }
                }
            }
            return result;
        }

        /** The mana of "tap: add one mana", as bits of LETTERS; -1 for anything else. */
        private static int given(SpellAbility ability) {
            Cost cost = ability.getPayCosts();
            String produced = ability.getParamOrDefault("Produced", "");
            if (cost == null || cost.getCostParts().size() != 1 || !cost.hasTapCost() || ability.getSubAbility() != null
                    || !ability.getParamOrDefault("Amount", "1").equals("1") || !PLAIN.containsAll(ability.getMapParams().keySet())
                    || !produced.matches("[WUBRGC]|Combo( [WUBRGC])+")) {
                return -1;
            }
            int bits = 0;
            for (int i = 0; i < LETTERS.length(); i++) {
                bits |= produced.replace("Combo", "").indexOf(LETTERS.charAt(i)) < 0 ? 0 : 1 << i;
            }
            return bits;
        }

        /** Yes, no, or null: ask the engine. */
        Boolean suffices(SpellAbility ability) {
            Card card = ability.getHostCard();
            Cost cost = ability.getPayCosts();
            if (sources == null || cost == null || !cost.isOnlyManaCost() || ability.getMayPlay() != null
                    || ability.isPwAbility() || ability.hasParam("Announce") || ability.hasParam("ReduceCost")
                    || !Prospects.harmless(card) || !card.getSVar("ManaNeededToAvoidNegativeEffect").isEmpty()) {
                return null;
            }
            String text = cost.hasManaCost() ? cost.getTotalMana().toString() : "";
            return COLORS.matcher(text).matches() ? suffices(text, ability) : null;
        }

        private Boolean suffices(String cost, SpellAbility ability) {
            int[] wanted = new int[LETTERS.length()];
            int total = 0;
            for (String symbol : cost.split("[{}]+")) {
                int color = symbol.length() == 1 ? LETTERS.indexOf(symbol) : -1;
                if (color >= 0) {
                    wanted[color]++;
                    total++;
                } else if (symbol.equals("X")) {
                    Integer x = ability.getXManaCostPaid();
                    total += x == null ? 0 : x;
                    if (ability.hasParam("XColor") || !Moves.xCanBe0(ability.getPayCosts()) || !xIsAnnounced(ability)) {
                        return null;
                    }
                } else if (!symbol.isEmpty()) {
                    total += Integer.parseInt(symbol);
                }
            }
            return matches(wanted, total);
        }

        private static boolean xIsAnnounced(SpellAbility ability) {
            String value = ability.getSVar("X");
            return value.isEmpty() || value.equals("Count$xPaid");
        }

        private Boolean matches(int[] wanted, int total) {
            if (total > sources.size()) {
                return false;
            }
            boolean certain = true;
            for (int color = 0; color < wanted.length; color++) {
                int able = 0;
                int only = 0;
                for (int source : sources) {
                    able += source >> color & 1;
                    only += source == 1 << color ? 1 : 0;
                }
                if (able < wanted[color]) {
                    return false;
                }
                certain &= only >= wanted[color];
            }
            return certain ? true : null;
        }
    }

    // ------------------------------------------------------------------------------------------------ one seat

    /** Writes one option. */
    private interface Writer<T> {
        void write(Json json, int index, T item);
    }

    /** The controller of a seat: questions of the engine become decisions, everything else is left to Forge's AI. */
    private static class Seat extends PlayerControllerAi {
        private final Table table;
        final int number;
        private final SeatPlayer lobby;
        private final View view;
        /** Whether the client holds this seat. */
        boolean remote;
        /** Greater than 0 while Forge's AI decides something for this seat: then nothing is asked. */
        private int thinking;
        /** Cards that the rules show to this seat for the question being asked. */
        final Set<Integer> shown = new HashSet<>();
        /** Numbers of hidden cards, see View.id. */
        final Map<Integer, Integer> aliases = new HashMap<>();
        /** The ability that Forge's AI chose in answer to `ai`: it also decides all about it. */
        private SpellAbility chosenByAi;
        /** Actions that turned out to be impossible, until something else happens. */
        private final Set<String> failed = new HashSet<>();
        private String failedAt = "";
        /** Modes that were chosen before the spell was put on the stack. */
        private List<AbilitySub> modes;

        Seat(Game game, Player player, SeatPlayer lobby, Table table, int number) {
            super(game, player, lobby);
            this.table = table;
            this.number = number;
            this.lobby = lobby;
            this.view = new View(table, this);
            this.remote = table.request.remote[number];
        }

        /** Whether Forge's AI shall decide without anybody being asked or told. */
        private boolean quiet() {
            return thinking > 0 || !remote && !table.request.observe;
        }

        <T> T think(Supplier<T> ai) {
            thinking++;
            try {
                return ai.get();
            } finally {
                thinking--;
            }
        }

        /** Forge's AI decides once for a client, with the profile of the seat. */
        <T> T lend(Supplier<T> ai) {
            String before = lobby.getAiProfile();
            lobby.setAiProfile(remote ? table.request.profiles[number] : before);
            try {
                return think(ai);
            } finally {
                lobby.setAiProfile(before);
            }
        }

        void handOver(String profile) {
            remote = false;
            lobby.setAiProfile(profile);
        }

        private boolean lazy() {
            return table.request.skipPasses;
        }

        // ---- forms of questions

        private static int index(String text, int low, int high) {
            try {
                int value = Integer.parseInt(text.trim());
                if (value >= low && value < high) {
                    return value;
                }
            } catch (NumberFormatException wrong) {
                // told below
            }
            throw new Refusal("expected a number from " + low + " to " + (high - 1) + ", not \"" + oneLine(text) + "\"");
        }

        private static List<Integer> indices(String text, int size, int min, int max, boolean repeat) {
            List<Integer> result = new ArrayList<>();
            if (!text.isEmpty()) {
                for (String word : text.split(",", -1)) {
                    int value = index(word, 0, size);
                    if (!repeat && result.contains(value)) {
                        throw new Refusal(value + " was chosen twice");
                    }
                    result.add(value);
                }
            }
            if (result.size() < min || result.size() > max) {
                throw new Refusal("expected " + min + " to " + max + " choices, not " + result.size());
            }
            return result;
        }

        private static String join(Iterable<?> items) {
            StringBuilder text = new StringBuilder();
            for (Object item : items) {
                text.append(text.length() == 0 ? "" : ",").append(item);
            }
            return text.toString();
        }

        private static String first(int count) {
            List<Integer> numbers = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                numbers.add(i);
            }
            return join(numbers);
        }

        /** The indices of chosen items, null if one of them was not offered. */
        private static <T> String said(Iterable<? extends T> chosen, List<T> options) {
            if (chosen == null) {
                return null;
            }
            List<Integer> numbers = new ArrayList<>();
            for (T item : chosen) {
                int at = options.indexOf(item);
                if (at < 0) {
                    return null;
                }
                numbers.add(at);
            }
            return join(numbers);
        }

        private static <T> List<T> select(List<T> options, List<Integer> indices) {
            List<T> result = new ArrayList<>();
            for (int index : indices) {
                result.add(options.get(index));
            }
            return result;
        }

        private <T> void options(Json json, List<T> options, Writer<T> writer) {
            json.array("options");
            for (int i = 0; i < options.size(); i++) {
                writer.write(json, i, options.get(i));
            }
            json.end();
        }

        private void show(Iterable<?> things) {
            for (Object thing : things) {
                if (thing instanceof Card) {
                    shown.add(((Card) thing).getId());
                }
            }
        }

        /** A set of options, between min and max of them, in the order of the answer. */
        private <T> List<T> set(String type, SpellAbility source, Consumer<Json> extra, List<T> options, int min, int max,
                Writer<T> writer, Supplier<? extends Iterable<? extends T>> ai) {
            int most = Math.min(max, options.size());
            int least = Math.min(min, most);
            if (most <= 0 || lazy() && least == options.size()) {
                return new ArrayList<>(options.subList(0, Math.max(0, most)));
            }
            show(options);
            try {
                return table.<List<T>>ask(this, type, json -> {
                    view.source(json, source);
                    extra.accept(json);
                    json.put("min", least).put("max", most);
                    options(json, options, writer);
                }, first(least), text -> select(options, indices(text, options.size(), least, most, false)),
                        () -> list(ai.get()), chosen -> said(chosen, options));
            } finally {
                shown.clear();
            }
        }

        private static <T> List<T> list(Iterable<? extends T> items) {
            return items == null ? null : Lists.<T>newArrayList(items);
        }

        /** One option, or null if that is allowed. */
        private <T> T one(String type, SpellAbility source, String message, List<T> options, boolean optional,
                Writer<T> writer, Supplier<? extends T> ai) {
            if (options.isEmpty()) {
                return null;
            }
            if (lazy() && !optional && options.size() == 1) {
                return options.get(0);
            }
            show(options);
            try {
                return table.<T>ask(this, type, json -> {
                    view.source(json, source);
                    if (message != null) {
                        json.put("message", oneLine(message));
                    }
                    if (type.equals("choose_entity")) {
                        json.put("optional", optional);
                    }
                    options(json, options, writer);
                }, optional ? "-1" : "0", text -> {
                    int at = index(text, optional ? -1 : 0, options.size());
                    return at < 0 ? null : options.get(at);
                }, ai::get, chosen -> chosen == null ? optional ? "-1" : null : said(Collections.singleton(chosen), options));
            } finally {
                shown.clear();
            }
        }

        private boolean yes(String type, SpellAbility source, String message, Supplier<Boolean> ai) {
            return table.<Boolean>ask(this, type, json -> {
                view.source(json, source);
                json.put("message", oneLine(message));
            }, "n", Seat::yesOrNo, ai, choice -> choice ? "y" : "n");
        }

        private static boolean yesOrNo(String text) {
            if (text.equals("y") || text.equals("n")) {
                return text.equals("y");
            }
            throw new Refusal("expected y or n, not \"" + oneLine(text) + "\"");
        }

        private int number(SpellAbility source, String name, int min, int max, Supplier<Integer> ai) {
            if (max <= min && lazy()) {
                return min;
            }
            int most = Math.max(min, max);
            return table.<Integer>ask(this, "announce_value", json -> {
                view.source(json, source);
                json.put("name", oneLine(name)).put("min", min).put("max", most);
            }, String.valueOf(min), text -> index(text, min, most + 1), ai,
                    choice -> choice == null || choice < min || choice > most ? null : String.valueOf(choice));
        }

        private static <T> Writer<T> texts(Function<T, String> text) {
            return (json, index, item) -> json.open().put("index", index).put("kind", "text")
                    .put("description", oneLine(text.apply(item))).close();
        }

        private <T extends GameObject> Writer<T> things() {
            return (json, index, item) -> view.option(json, index, item);
        }

        private <T> List<T> order(String type, SpellAbility source, String message, List<T> options, Writer<T> writer,
                Supplier<? extends Iterable<? extends T>> ai) {
            show(options);
            try {
                return table.<List<T>>ask(this, type, json -> {
                    view.source(json, source);
                    json.put("message", oneLine(message));
                    options(json, options, writer);
                }, first(options.size()), text -> select(options,
                        indices(text, options.size(), options.size(), options.size(), false)),
                        () -> list(ai.get()), chosen -> said(chosen, options));
            } finally {
                shown.clear();
            }
        }

        private static Consumer<Json> message(String text) {
            return json -> json.put("message", oneLine(text));
        }

        // ---- priority

        @Override
        public List<SpellAbility> chooseSpellAbilityToPlay() {
            Checks.resume(getGame());
            List<SpellAbility> choice = choosePlay();
            if (choice == null && remote && table.facts != null) {
                Checks.skipNext(getGame());
            }
            return choice;
        }

        private List<SpellAbility> choosePlay() {
            table.check();
            chosenByAi = null;
            if (quiet()) {
                return super.chooseSpellAbilityToPlay();
            }
            List<SpellAbility> actions = think(() -> Moves.legal(player, table.facts));
            forgetFailures();
            if (!failed.isEmpty()) {
                actions.removeIf(action -> failed.contains(key(action)));
            }
            if (actions.isEmpty() && lazy()) {
                return null;
            }
            return table.<List<SpellAbility>>ask(this, "choose_action", json -> actions(json, actions), "-1", text -> {
                int at = index(text, -1, actions.size());
                return at < 0 ? null : Lists.newArrayList(actions.get(at));
            }, () -> {
                List<SpellAbility> choice = super.chooseSpellAbilityToPlay();
                chosenByAi = choice == null || choice.isEmpty() ? null : choice.get(0);
                return choice;
            }, choice -> choice == null || choice.isEmpty() ? "-1" : saidAction(choice.get(0), actions));
        }

        private void actions(Json json, List<SpellAbility> actions) {
            json.array("actions");
            for (int i = 0; i < actions.size(); i++) {
                SpellAbility action = actions.get(i);
                Card card = action.getHostCard();
                boolean land = action instanceof LandAbility;
                Cost cost = action.getPayCosts();
                String mana = land || cost == null || !cost.hasManaCost() ? "" : cost.getTotalMana().toString();
                json.open().put("index", i).put("description", oneLine(land ? "Play land" : View.describe(action)))
                        .put("card", view.name(card)).put("card_id", view.id(card)).put("mana_cost", mana)
                        .put("is_land", land).put("kind", land ? "land" : action.isSpell() ? "spell" : "ability").close();
            }
            json.end();
        }

        /** The action that is meant by an ability of Forge's AI, which may be another copy of it. */
        private static String saidAction(SpellAbility ability, List<SpellAbility> actions) {
            int at = actions.indexOf(ability);
            for (int i = 0; at < 0 && i < actions.size(); i++) {
                SpellAbility action = actions.get(i);
                if (action.getHostCard() == ability.getHostCard() && (action instanceof LandAbility)
                        == (ability instanceof LandAbility) && View.describe(action).equals(View.describe(ability))) {
                    at = i;
                }
            }
            return at < 0 ? null : String.valueOf(at);
        }

        private void forgetFailures() {
            PhaseHandler phases = getGame().getPhaseHandler();
            String now = phases.getTurn() + " " + phases.getPhase() + " " + getGame().getStack().size() + " "
                    + player.getCardsIn(ZoneType.Hand).size() + " " + player.getCardsIn(ZoneType.Battlefield).size();
            if (!now.equals(failedAt)) {
                failedAt = now;
                failed.clear();
            }
        }

        private static String key(SpellAbility action) {
            return action.getHostCard().getId() + " " + View.describe(action);
        }

        @Override
        public boolean playChosenSpellAbility(SpellAbility ability) {
            table.check();
            if (ability instanceof LandAbility) {
                return super.playChosenSpellAbility(ability);
            }
            if (quiet() || ability == chosenByAi) {
                if (!remote && !quiet()) {
                    tellChoices(ability);
                }
                chosenByAi = null;
                try {
                    return lend(() -> super.playChosenSpellAbility(ability));
                } finally {
                    modes = null;
                }
            }
            String key = key(ability);
            boolean done = play(ability);
            if (!done) {
                failed.add(key);
            }
            return done;
        }

        /** Observe mode: what Forge's AI announced and aimed at with the ability that it is about to play. */
        private void tellChoices(SpellAbility ability) {
            Integer x = ability.getXManaCostPaid();
            if (x != null && ability.getPayCosts() != null && ability.getPayCosts().hasXInAnyCostPart()) {
                number(ability, "X", 0, Math.max(x, think(() -> Moves.greatestX(ability, player, 0, table.facts))), () -> x);
            }
            List<AbilitySub> chosen = ability.getApi() == ApiType.Charm ? ability.getChosenList() : null;
            if (chosen == null) {
                tellTargets(ability);
                return;
            }
            List<AbilitySub> options = CharmEffect.makePossibleOptions(ability);
            table.<List<AbilitySub>>ask(this, "choose_mode", json -> {
                view.source(json, ability);
                json.put("min", chosen.size()).put("max", chosen.size()).put("repeat", ability.hasParam("CanRepeatModes"));
                options(json, options, texts(mode -> mode.getDescription()));
            }, "", text -> null, () -> chosen, modes -> said(modes, options));
            chosen.forEach(this::tellTargets);
            modes = chosen; // not to be told again when the engine asks
        }

        private void tellTargets(SpellAbility ability) {
            for (SpellAbility part = ability; part != null; part = part.getSubAbility()) {
                if (part.usesTargeting()) {
                    TargetChoices targets = part.getTargets();
                    List<GameObject> aimed = new ArrayList<>(targets);
                    part.resetTargets();
                    List<GameObject> options = Moves.options(part);
                    part.setTargets(targets);
                    set("choose_targets", part, json -> { }, options, Math.min(part.getMinTargets(), aimed.size()),
                            Math.max(part.getMaxTargets(), aimed.size()), things(), () -> aimed);
                }
            }
        }

        /** Announces, chooses targets and pays; whatever fails before the stack is touched leaves no trace. */
        private boolean play(SpellAbility original) {
            original.setActivatingPlayer(player);
            SpellAbility ability = withCosts(original);
            if (ability == null || !announce(ability)) {
                return false;
            }
            Card card = ability.getHostCard();
            Zone from = card.getZone();
            int position = from == null ? -1 : from.getCards().indexOf(card);
            boolean charm = ability.getApi() == ApiType.Charm && !ability.isWrapper();
            try {
                if (charm ? !chooseModes(ability) : !ability.setupTargets()) {
                    return undone(ability);
                }
                final SpellAbility ready = ability;
                if (!think(() -> Moves.canPay(ready, player))) {
                    return undone(ability);
                }
                if (Moves.carryOut(player, ability, charm ? this::chooseModeTargets : null)) {
                    return true;
                }
                System.err.println("could not be played after all: " + key(ability));
                putBack(ability, card, from, position);
                return undone(ability);
            } finally {
                modes = null;
            }
        }

        private boolean undone(SpellAbility ability) {
            for (SpellAbility part = ability; part != null; part = part.getSubAbility()) {
                part.clearTargets();
            }
            ability.setXManaCostPaid(null);
            return false;
        }

        /** What Forge does when a human cancels a spell that already lies on the stack. */
        private void putBack(SpellAbility ability, Card card, Zone from, int position) {
            Game game = getGame();
            Card now = game.getCardState(card);
            boolean moved = from != null && now.isInZone(ZoneType.Stack);
            if (Moves.ROLLBACK != null) {
                Reflect.call(Moves.ROLLBACK, null, ability, moved ? from : null, position,
                        new CostPayment(ability.getPayCosts(), ability), card);
                return;
            }
            if (moved) {
                now.setCastSA(null);
                now.setCastFrom(null);
                now.getZone().remove(now);
                from.add(card, position >= 0 ? Integer.valueOf(position) : null);
                ability.setHostCard(card);
                ability.rollback();
                card.setBackSide(false);
                card.setState(card.getFaceupCardStateName(), true);
                card.unanimateBestow();
            }
            ability.resetOnceResolved();
            Reflect.tell(player.getManaPool(), "refundManaPaid", ability);
            game.getStack().clearFrozen();
            game.getTriggerHandler().clearWaitingTriggers();
        }

        /** Alternative additional costs ("discard a card or pay 3"), then optional ones (kicker). */
        private SpellAbility withCosts(SpellAbility original) {
            List<SpellAbility> variants = new ArrayList<>(GameActionUtil.getAdditionalCostSpell(original));
            if (variants.size() > 1) {
                variants.removeIf(variant -> !think(() -> Moves.canPay(variant, player)));
            }
            SpellAbility chosen = one("choose_ability", original, "Choose how to pay", variants, false,
                    texts(variant -> variant.getPayCosts().toString()), () -> variants.get(0));
            if (chosen == null) {
                return null;
            }
            List<OptionalCostValue> costs = GameActionUtil.getOptionalCostValues(chosen);
            return costs.isEmpty() ? chosen : GameActionUtil.addOptionalCosts(chosen, chooseOptionalCosts(chosen, costs));
        }

        @Override
        public List<OptionalCostValue> chooseOptionalCosts(SpellAbility chosen, List<OptionalCostValue> values) {
            if (quiet()) {
                return super.chooseOptionalCosts(chosen, values);
            }
            List<OptionalCostValue> result = new ArrayList<>();
            Cost soFar = chosen.getPayCosts().copy();
            for (OptionalCostValue value : values) { // one after the other: what can be paid depends on what was chosen
                Cost full = value.getCost().copy().add(soFar);
                SpellAbility dearer = chosen.copyWithDefinedCost(full);
                dearer.setActivatingPlayer(player);
                if (think(() -> Moves.canPay(dearer, player)) && yes("confirm_action", chosen, "Pay " + value, () ->
                        super.chooseOptionalCosts(chosen, Lists.newArrayList(value)).contains(value))) {
                    result.add(value);
                    soFar = full;
                }
            }
            return result;
        }

        /** X and the like. As in Forge's own dialog for humans. */
        private boolean announce(SpellAbility ability) {
            Card card = ability.getHostCard();
            boolean needX = true;
            if (ability.hasParam("Announce")) {
                for (String word : ability.getParam("Announce").split(",")) {
                    String name = word.trim();
                    Integer value = announced(ability, name);
                    if (value == null) {
                        return false;
                    }
                    if (name.equalsIgnoreCase("X")) {
                        needX = false;
                        ability.setXManaCostPaid(value);
                    } else {
                        setAnnounced(ability, card, name, value);
                    }
                }
            }
            Cost cost = ability.getPayCosts();
            if (needX && cost != null && cost.hasXInAnyCostPart()) {
                String variable = ability.getSVar("X");
                if (variable.isEmpty() || variable.equals("Count$xPaid")) {
                    Integer value = announced(ability, "X");
                    if (value == null) {
                        return false;
                    }
                    ability.setXManaCostPaid(value);
                }
            } else if (needX) {
                ability.setXManaCostPaid(null);
            }
            return true;
        }

        private static void setAnnounced(SpellAbility ability, Card card, String name, int value) {
            ability.setSVar(name, String.valueOf(value));
            if (name.equals("Multikicker")) {
                Reflect.tell(card, "setKickerMagnitude", value);
            } else if (name.equals("Pseudo-multikicker")) {
                Reflect.tell(card, "setPseudoMultiKickerMagnitude", value);
            } else {
                card.setSVar(name, String.valueOf(value));
            }
        }

        /** A number that is chosen while an ability is announced; null: none is possible. */
        private Integer announced(SpellAbility ability, String name) {
            Cost cost = ability.getPayCosts();
            boolean x = name.equals("X");
            boolean zero = !(x && (ability.hasParam("XCantBe0")
                    || cost != null && cost.hasManaCost() && !Moves.xCanBe0(cost)));
            int least = zero ? 0 : 1;
            int most = x ? think(() -> Moves.greatestX(ability, player, least, table.facts)) : greatestAnnounced(ability, name);
            if (most < least) {
                return null;
            }
            if (ability.usesTargeting() && name.equals(ability.getTargetRestrictions().getMinTargets())) {
                most = Math.min(most, Moves.options(ability).size());
            }
            return most < least ? null : (Integer) number(ability, name, least, most, () -> least);
        }

        private int greatestAnnounced(SpellAbility ability, String name) {
            if (!name.equals("Multikicker") && !name.equals("Pseudo-multikicker")) {
                return 10;
            }
            Card card = ability.getHostCard();
            int greatest = 0;
            for (int times = 1; times <= 20; times++) {
                setAnnounced(ability, card, name, times);
                if (!think(() -> Moves.canPay(ability, player))) {
                    break;
                }
                greatest = times;
            }
            setAnnounced(ability, card, name, 0);
            return greatest;
        }

        // ---- modes and targets

        private boolean chooseModes(SpellAbility charm) {
            List<AbilitySub> all = CharmEffect.makePossibleOptions(charm);
            int wanted = AbilityUtils.calculateAmount(charm.getHostCard(), charm.getParamOrDefault("CharmNum", "1"), charm);
            int least = charm.hasParam("MinCharmNum")
                    ? AbilityUtils.calculateAmount(charm.getHostCard(), charm.getParam("MinCharmNum"), charm) : wanted;
            if (charm.isEntwine() || charm.hasParam("Random") || charm.hasParam("Chooser")) {
                return true; // nothing for this seat to choose
            }
            boolean repeat = charm.hasParam("CanRepeatModes");
            modes = askModes(charm, Moves.feasible(charm, all), least, repeat ? wanted : Math.min(wanted, all.size()), repeat);
            return modes != null;
        }

        private List<AbilitySub> askModes(SpellAbility charm, List<AbilitySub> options, int min, int max, boolean repeat) {
            int most = repeat ? max : Math.min(max, options.size());
            if (options.isEmpty() || most < min) {
                return null;
            }
            if (lazy() && (options.size() == 1 && (repeat || min == 1) || !repeat && options.size() == min)) {
                List<Integer> every = new ArrayList<>();
                for (int i = 0; i < min; i++) {
                    every.add(repeat ? 0 : i);
                }
                return select(options, every);
            }
            String fallback = repeat ? join(Collections.nCopies(min, 0)) : first(min);
            return table.<List<AbilitySub>>ask(this, "choose_mode", json -> {
                view.source(json, charm);
                json.put("min", min).put("max", most).put("repeat", repeat);
                options(json, options, texts(mode -> mode.getDescription()));
            }, fallback, text -> select(options, indices(text, options.size(), min, most, repeat)),
                    () -> super.chooseModeForAbility(charm, options, min, max, repeat), chosen -> said(chosen, options));
        }

        @Override
        public List<AbilitySub> chooseModeForAbility(SpellAbility charm, List<AbilitySub> possible, int min, int num,
                boolean repeat) {
            if (modes != null) {
                return modes;
            }
            if (quiet()) {
                return super.chooseModeForAbility(charm, possible, min, num, repeat);
            }
            List<AbilitySub> options = Moves.feasible(charm, possible);
            List<AbilitySub> chosen = askModes(charm, options.size() < min ? possible : options, min, num, repeat);
            return chosen == null ? new ArrayList<>() : chosen;
        }

        private void chooseModeTargets(SpellAbility charm) {
            for (SpellAbility part = charm.getSubAbility(); part != null; part = part.getSubAbility()) {
                if (part.usesTargeting()) {
                    part.clearTargets();
                    chooseTargetsFor(part);
                }
            }
        }

        @Override
        public boolean chooseTargetsFor(SpellAbility ability) {
            if (quiet()) {
                return super.chooseTargetsFor(ability);
            }
            int min = ability.getMinTargets();
            int max = ability.getMaxTargets();
            if (max == 0) {
                return true;
            }
            if (ability.getTargetRestrictions().isRandomTarget()) {
                return randomTargets(ability, min, max);
            }
            List<GameObject> options = Moves.options(ability);
            if (ability.isDividedAsYouChoose()) {
                max = Math.min(max, Math.max(min, ability.getStillToDivide()));
            }
            if (options.size() < min) {
                return false;
            }
            if (max > 1 && options.size() > 1 && Moves.dependent(ability, options)) {
                return oneByOne(ability, min, max);
            }
            List<GameObject> chosen = set("choose_targets", ability, json -> { }, options, min, max, things(),
                    () -> aiTargets(ability));
            if (ability.getTargets().isEmpty()) { // not when Forge's AI has set them
                ability.getTargets().addAll(chosen);
                divide(ability, chosen);
            }
            return ability.getTargets().size() >= min;
        }

        /** Lets Forge's AI choose the targets of an ability; they are set in it. */
        private List<GameObject> aiTargets(SpellAbility ability) {
            super.chooseTargetsFor(ability);
            return new ArrayList<>(ability.getTargets());
        }

        private boolean oneByOne(SpellAbility ability, int min, int max) {
            while (ability.getTargets().size() < max) {
                int missing = min - ability.getTargets().size();
                List<GameObject> options = Moves.options(ability);
                if (options.isEmpty()) {
                    break;
                }
                List<GameObject> chosen = set("choose_targets", ability, json -> { }, options, missing > 0 ? 1 : 0, 1,
                        things(), () -> options.subList(0, missing > 0 ? 1 : 0));
                if (chosen.isEmpty()) {
                    break;
                }
                ability.getTargets().addAll(chosen);
            }
            divide(ability, new ArrayList<>(ability.getTargets()));
            return ability.getTargets().size() >= min;
        }

        private static boolean randomTargets(SpellAbility ability, int min, int max) {
            List<GameObject> candidates = Moves.options(ability);
            int wanted = Math.max(min, 1);
            if (ability.getTargetRestrictions().isRandomNumTargets()) {
                int top = Math.max(wanted, Math.min(candidates.size(), max));
                wanted += MyRandom.getRandom().nextInt(top - wanted + 1);
            }
            while (wanted-- > 0 && !candidates.isEmpty()) {
                ability.getTargets().add(candidates.remove(MyRandom.getRandom().nextInt(candidates.size())));
            }
            return ability.getTargets().size() >= min;
        }

        /** Divides damage or counters among targets: at least one each, the rest as chosen. */
        private void divide(SpellAbility ability, List<GameObject> targets) {
            if (!ability.isDividedAsYouChoose() || targets.isEmpty()) {
                return;
            }
            int left = ability.getStillToDivide();
            for (int i = 0; i < targets.size(); i++) {
                int after = targets.size() - i - 1;
                int share = after == 0 ? left : number(ability, "share of " + label(targets.get(i)), 1, left - after, () -> 1);
                ability.addDividedAllocation(targets.get(i), share);
                left -= share;
            }
        }

        private String label(GameObject thing) {
            return thing instanceof Card ? view.name((Card) thing) : thing instanceof SpellAbility
                    ? view.name(((SpellAbility) thing).getHostCard()) : ((Player) thing).getName();
        }

        /** For a spell whose targets may be changed; null: they stay. */
        private TargetChoices newTargets(SpellAbility ability, java.util.function.Predicate<GameObject> filter, boolean optional) {
            SpellAbility part = ability.isWrapper() ? ((WrappedAbility) ability).getWrappedAbility() : ability;
            if (!part.usesTargeting()) {
                return null;
            }
            TargetChoices before = part.getTargets();
            int count = before.size();
            part.clearTargets();
            List<GameObject> options = Moves.options(part);
            if (filter != null) {
                options.removeIf(option -> !filter.test(option));
            }
            boolean change = count > 0 && options.size() >= count
                    && (!optional || yes("confirm_action", part, "Choose new targets", () -> false));
            if (!change) {
                part.setTargets(before);
                return optional ? null : before;
            }
            List<GameObject> chosen = set("choose_targets", part, json -> { }, options, count, count, things(), () -> null);
            part.getTargets().addAll(chosen);
            divide(part, chosen);
            return part.getTargets();
        }

        @Override
        public Pair<SpellAbilityStackInstance, GameObject> chooseTarget(SpellAbility source,
                List<Pair<SpellAbilityStackInstance, GameObject>> targets) {
            return quiet() ? super.chooseTarget(source, targets) : one("choose_entity", source, "Choose a target", targets,
                    false, (json, index, pair) -> view.option(json, index, pair.getValue()),
                    () -> super.chooseTarget(source, targets));
        }

        // ---- triggers and spells that effects let one play

        @Override
        public void orderAndPlaySimultaneousSa(List<SpellAbility> abilities) {
            table.check();
            if (quiet() || !remote && !abilities.stream().allMatch(SpellAbility::isTrigger)) {
                think(() -> {
                    super.orderAndPlaySimultaneousSa(abilities);
                    return null;
                });
                return;
            }
            List<SpellAbility> ordered = abilities;
            if (abilities.size() > 1 && distinct(abilities)) {
                ordered = order("order", null, "Order of resolution, the first resolves first", abilities,
                        texts(String::valueOf), () -> Lists.reverse(getAi().orderPlaySa(abilities)));
            }
            for (int i = ordered.size() - 1; i >= 0; i--) {
                putOnStack(ordered.get(i));
            }
        }

        private static boolean distinct(List<SpellAbility> abilities) {
            for (SpellAbility ability : abilities) {
                if (!ability.isTrigger() || !String.valueOf(ability).equals(String.valueOf(abilities.get(0)))) {
                    return true;
                }
            }
            return false;
        }

        private void putOnStack(SpellAbility ability) {
            if (ability.isTrigger() && (Moves.ROLLBACK == null || !ability.isCopied())) {
                ability.setActivatingPlayer(player);
                boolean ready = remote ? Moves.hasTargets(ability) && hasModes(ability) && ability.setupTargets() : aimed(ability);
                if (ready) {
                    ComputerUtil.playStack(ability, player, getGame());
                }
                return;
            }
            if (ability.isCopied()) {
                if (ability.isSpell()) {
                    if (ability.getHostCard().isInZone(ZoneType.Stack)) {
                        getGame().getStackZone().add(ability.getHostCard());
                    } else {
                        ability.setHostCard(getGame().getAction().moveToStack(ability.getHostCard(), ability));
                    }
                }
                if (ability.isMayChooseNewTargets()) {
                    ability.setupNewTargets(player);
                }
            }
            getGame().getStack().add(ability);
        }

        /** Later versions leave it to the controller to choose the modes of a trigger, earlier ones have chosen them before. */
        private static boolean hasModes(SpellAbility trigger) {
            return trigger.getApi() != ApiType.Charm || trigger.getSubAbility() != null || CharmEffect.makeChoices(trigger);
        }

        /** Observe mode: Forge's AI aims a trigger, and it is told at what. */
        private boolean aimed(SpellAbility trigger) {
            boolean modal = trigger.getApi() == ApiType.Charm && trigger.getSubAbility() == null && !trigger.hasParam("Random");
            if (!hasModes(trigger) || !modal && (trigger.hasParam("TargetingPlayer") ? !trigger.setupTargets()
                    : !think(() -> getAi().doTrigger(trigger, true)))) {
                return false;
            }
            tellTargets(trigger);
            return true;
        }

        @Override
        public void playSpellAbilityNoStack(SpellAbility effect, boolean canSetupTargets) {
            if (quiet() || !remote) {
                super.playSpellAbilityNoStack(effect, canSetupTargets);
                return;
            }
            if (canSetupTargets) {
                effect.setActivatingPlayer(player);
                if (!effect.setupTargets()) {
                    return;
                }
            }
            Moves.playNoStack(player, effect);
        }

        /** A spell that an effect lets this seat play while it resolves. */
        @Override
        public boolean playSaFromPlayEffect(SpellAbility spell) {
            if (quiet() || !remote) {
                return super.playSaFromPlayEffect(spell);
            }
            spell.setActivatingPlayer(player);
            if (spell instanceof LandAbility || !spell.isSpell()) {
                return super.playSaFromPlayEffect(spell);
            }
            boolean free = spell.hasParam("WithoutManaCost") && Moves.WITHOUT_MANA != null; // later its cost says so
            boolean possible = spell.checkRestrictions(player) && Moves.hasTargets(spell)
                    && (free || think(() -> Moves.canPay(spell, player)));
            if (!possible || spell.hasParam("Optional") && !yes("confirm_action", spell, "Play "
                    + view.name(spell.getHostCard()), () -> super.playSaFromPlayEffect(spell))) {
                return false;
            }
            if (free) {
                if (spell.getApi() != ApiType.Charm && !spell.setupTargets()) {
                    return false;
                }
                return (Boolean) Reflect.call(Moves.WITHOUT_MANA, null, player, spell, getGame());
            }
            return play(spell);
        }

        @Override
        public boolean confirmTrigger(WrappedAbility trigger) {
            if (quiet()) {
                return super.confirmTrigger(trigger);
            }
            return trigger.isMandatory() || yes("play_trigger", trigger, String.valueOf(trigger),
                    () -> super.confirmTrigger(trigger));
        }

        // ---- combat

        @Override
        public void declareAttackers(Player attacker, Combat combat) {
            table.check();
            if (quiet()) {
                super.declareAttackers(attacker, combat);
                return;
            }
            List<Card> attackers = new ArrayList<>();
            List<List<GameEntity>> defenders = new ArrayList<>();
            for (Card card : CombatUtil.getPossibleAttackers(attacker)) {
                List<GameEntity> possible = new ArrayList<>();
                for (GameEntity defender : combat.getDefenders()) {
                    if (CombatUtil.canAttack(card, defender)) {
                        possible.add(defender);
                    }
                }
                if (!possible.isEmpty()) {
                    attackers.add(card);
                    defenders.add(possible);
                }
            }
            if (attackers.isEmpty()) {
                return;
            }
            Pair<Map<Card, GameEntity>, Integer> best = combat.getAttackConstraints().getLegalAttackers();
            Map<Card, GameEntity> forced = best.getRight() > 0 ? best.getLeft() : Collections.emptyMap();
            List<int[]> choice = table.<List<int[]>>ask(this, "declare_attackers",
                    json -> attackers(json, attackers, defenders, forced), "",
                    text -> pairs(text, attackers.size(), index -> defenders.get(index).size(), true), () -> {
                        super.declareAttackers(attacker, combat);
                        return attacks(combat, attackers, defenders);
                    }, chosen -> pairText(chosen));
            if (remote && combat.getAttackers().isEmpty()) {
                for (int[] pair : choice) {
                    combat.addAttacker(attackers.get(pair[0]), defenders.get(pair[0]).get(pair[1]));
                }
                makeLegal(combat, best.getLeft());
            }
        }

        private void attackers(Json json, List<Card> attackers, List<List<GameEntity>> defenders,
                Map<Card, GameEntity> forced) {
            json.array("attackers");
            for (int i = 0; i < attackers.size(); i++) {
                Card card = attackers.get(i);
                json.open().put("index", i).put("card_id", view.id(card)).put("name", view.name(card))
                        .put("must", forced.containsKey(card)).array("defenders");
                for (int d = 0; d < defenders.get(i).size(); d++) {
                    GameEntity defender = defenders.get(i).get(d);
                    view.object(json.open().put("index", d), defender).put("name", defender instanceof Card
                            ? view.name((Card) defender) : defender.getName()).close();
                }
                json.end().close();
            }
            json.end();
        }

        private static List<int[]> attacks(Combat combat, List<Card> attackers, List<List<GameEntity>> defenders) {
            List<int[]> result = new ArrayList<>();
            for (Card card : combat.getAttackers()) {
                int at = attackers.indexOf(card);
                int defender = at < 0 ? -1 : defenders.get(at).indexOf(combat.getDefenderByAttacker(card));
                if (defender < 0) {
                    return null;
                }
                result.add(new int[] {at, defender});
            }
            return result;
        }

        /** "0:1,2:0" as pairs; a word without a colon means 0 as second number. */
        private static List<int[]> pairs(String text, int size, Function<Integer, Integer> sizes, boolean single) {
            List<int[]> result = new ArrayList<>();
            Set<Object> seen = new HashSet<>();
            for (String word : text.isEmpty() ? new String[0] : text.split(",", -1)) {
                int colon = word.indexOf(':');
                if (colon < 0 && !single) {
                    throw new Refusal("expected blocker:attacker, not \"" + oneLine(word) + "\"");
                }
                int left = index(colon < 0 ? word : word.substring(0, colon), 0, size);
                int right = colon < 0 ? 0 : index(word.substring(colon + 1), 0, sizes.apply(left));
                if (!seen.add(single ? (Object) left : left + ":" + right)) {
                    throw new Refusal(word + " was given twice");
                }
                result.add(new int[] {left, right});
            }
            return result;
        }

        private static String pairText(List<int[]> pairs) {
            if (pairs == null) {
                return null;
            }
            List<String> words = new ArrayList<>();
            for (int[] pair : pairs) {
                words.add(pair[0] + ":" + pair[1]);
            }
            return String.join(",", words);
        }

        /** The engine asks again for ever when an attack is illegal, so an illegal one is mended and told. */
        private void makeLegal(Combat combat, Map<Card, GameEntity> best) {
            if (CombatUtil.validateAttackers(combat)) {
                return;
            }
            Map<Card, GameEntity> wanted = new java.util.LinkedHashMap<>(combat.getAttackersAndDefenders());
            for (Map.Entry<Card, GameEntity> forced : best.entrySet()) { // with those that must attack
                wanted.putIfAbsent(forced.getKey(), forced.getValue());
            }
            List<Card> optional = new ArrayList<>(wanted.keySet());
            optional.removeAll(best.keySet());
            while (true) { // then without one after the other of those that need not
                combat.clearAttackers();
                wanted.forEach(combat::addAttacker);
                if (CombatUtil.validateAttackers(combat) || optional.isEmpty()) {
                    break;
                }
                wanted.remove(optional.remove(optional.size() - 1));
            }
            if (!CombatUtil.validateAttackers(combat)) {
                combat.clearAttackers();
                best.forEach(combat::addAttacker);
            }
            table.tell(this, "repaired", json -> {
                json.put("decision_type", "declare_attackers").array("attackers");
                for (Card card : combat.getAttackers()) {
                    json.item(view.id(card));
                }
                json.end();
            });
        }

        @Override
        public void declareBlockers(Player defender, Combat combat) {
            table.check();
            if (quiet()) {
                super.declareBlockers(defender, combat);
                return;
            }
            List<Card> attackers = new ArrayList<>(combat.getAttackers());
            attackers.removeIf(attacker -> combat.getDefenderPlayerByAttacker(attacker) != defender);
            List<Card> blockers = new ArrayList<>();
            List<List<Integer>> targets = new ArrayList<>();
            for (Card card : defender.getCreaturesInPlay()) {
                List<Integer> possible = new ArrayList<>();
                for (int i = 0; i < attackers.size(); i++) {
                    if (CombatUtil.canBlock(attackers.get(i), card, combat)) {
                        possible.add(i);
                    }
                }
                if (!possible.isEmpty()) {
                    blockers.add(card);
                    targets.add(possible);
                }
            }
            if (blockers.isEmpty()) {
                return;
            }
            List<int[]> choice = table.<List<int[]>>ask(this, "declare_blockers",
                    json -> blockers(json, combat, defender, attackers, blockers, targets), "",
                    text -> blocks(text, attackers, blockers, targets), () -> {
                        super.declareBlockers(defender, combat);
                        return blocked(combat, attackers, blockers);
                    }, chosen -> pairText(chosen));
            if (remote && combat.getAllBlockers().isEmpty()) {
                block(combat, defender, attackers, blockers, choice);
            }
        }

        private void blockers(Json json, Combat combat, Player defender, List<Card> attackers, List<Card> blockers,
                List<List<Integer>> targets) {
            json.array("attackers");
            for (int i = 0; i < attackers.size(); i++) {
                int least = 1;
                while (least < blockers.size() && !CombatUtil.canAttackerBeBlockedWithAmount(attackers.get(i), least, defender)) {
                    least++;
                }
                int most = least;
                while (most < blockers.size() && CombatUtil.canAttackerBeBlockedWithAmount(attackers.get(i), most + 1, defender)) {
                    most++;
                }
                json.open().put("index", i).put("card_id", view.id(attackers.get(i))).put("name", view.name(attackers.get(i)))
                        .put("min_blockers", least).put("max_blockers", most >= blockers.size() ? 0 : most).close();
            }
            json.end().array("blockers");
            for (int i = 0; i < blockers.size(); i++) {
                Card card = blockers.get(i);
                json.open().put("index", i).put("card_id", view.id(card)).put("name", view.name(card)).array("can_block");
                for (int attacker : targets.get(i)) {
                    json.item(attacker);
                }
                json.end().put("must", CombatUtil.mustBlockAnAttacker(card, combat, null)
                        || card.hasKeyword("CARDNAME blocks each combat if able.")).close();
            }
            json.end();
        }

        private static List<int[]> blocks(String text, List<Card> attackers, List<Card> blockers, List<List<Integer>> targets) {
            List<int[]> result = pairs(text, blockers.size(), blocker -> attackers.size(), false);
            for (int[] pair : result) {
                if (!targets.get(pair[0]).contains(pair[1])) {
                    throw new Refusal("blocker " + pair[0] + " cannot block attacker " + pair[1]);
                }
            }
            return result;
        }

        private static List<int[]> blocked(Combat combat, List<Card> attackers, List<Card> blockers) {
            List<int[]> result = new ArrayList<>();
            for (int b = 0; b < blockers.size(); b++) {
                for (int a = 0; a < attackers.size(); a++) {
                    if (combat.isBlocking(blockers.get(b), attackers.get(a))) {
                        result.add(new int[] {b, a});
                    }
                }
            }
            return result;
        }

        /** Declares blocks and takes back what the rules do not allow. */
        private void block(Combat combat, Player defender, List<Card> attackers, List<Card> blockers, List<int[]> choice) {
            boolean repaired = false;
            for (int[] pair : choice) {
                Card attacker = attackers.get(pair[0 + 1]);
                Card blocker = blockers.get(pair[0]);
                if (CombatUtil.canBlock(attacker, blocker, combat)) {
                    combat.addBlocker(attacker, blocker);
                } else {
                    repaired = true;
                }
            }
            for (Card attacker : attackers) {
                List<Card> assigned = new ArrayList<>(combat.getBlockers(attacker));
                while (!assigned.isEmpty() && !CombatUtil.canAttackerBeBlockedWithAmount(attacker, assigned.size(), defender)) {
                    combat.removeBlockAssignment(attacker, assigned.remove(assigned.size() - 1));
                    repaired = true;
                }
            }
            if (CombatUtil.validateBlocks(combat, defender) != null) {
                repaired = true;
                for (Card blocker : new ArrayList<>(combat.getAllBlockers())) {
                    if (blocker.getController() == defender) {
                        combat.undoBlockingAssignment(blocker);
                    }
                }
                if (CombatUtil.validateBlocks(combat, defender) != null) {
                    think(() -> {
                        super.declareBlockers(defender, combat);
                        return null;
                    });
                }
            }
            if (repaired) {
                table.tell(this, "repaired", json -> json.put("decision_type", "declare_blockers")
                        .put("choice", pairText(blocked(combat, attackers, blockers))));
            }
        }

        @Override
        public List<Card> exertAttackers(List<Card> attackers) {
            return quiet() ? super.exertAttackers(attackers) : set("choose_cards", null, message("Exert attackers"), attackers,
                    0, attackers.size(), things(), () -> super.exertAttackers(attackers));
        }

        // ---- choosing cards

        private CardCollection cards(String text, SpellAbility source, Iterable<Card> options, int min, int max,
                Supplier<? extends Iterable<? extends Card>> ai) {
            return new CardCollection(cardList(text, source, options, min, max, ai));
        }

        private List<Card> cardList(String text, SpellAbility source, Iterable<Card> options, int min, int max,
                Supplier<? extends Iterable<? extends Card>> ai) {
            List<Card> chosen = set("choose_cards", source, message(text), list(options), min, max, things(), ai);
            return chosen == null ? new ArrayList<>() : chosen;
        }

        private static CardCollection copy(CardCollectionView cards) {
            return cards == null ? null : new CardCollection(cards);
        }

        @Override
        public CardCollectionView choosePermanentsToSacrifice(SpellAbility sa, int min, int max, CardCollectionView valid,
                String message) {
            return quiet() ? super.choosePermanentsToSacrifice(sa, min, max, valid, message)
                    : cards("Sacrifice " + message, sa, valid, min, max,
                            () -> super.choosePermanentsToSacrifice(sa, min, max, valid, message));
        }

        @Override
        public CardCollectionView choosePermanentsToDestroy(SpellAbility sa, int min, int max, CardCollectionView valid,
                String message) {
            return quiet() ? super.choosePermanentsToDestroy(sa, min, max, valid, message)
                    : cards("Destroy " + message, sa, valid, min, max,
                            () -> super.choosePermanentsToDestroy(sa, min, max, valid, message));
        }

        @Override
        public CardCollectionView chooseCardsForEffect(CardCollectionView source, SpellAbility sa, String title, int min,
                int max, boolean optional, Map<String, Object> params) {
            Supplier<CardCollectionView> ai = () -> super.chooseCardsForEffect(source, sa, title, min, max, optional, params);
            if (quiet()) {
                return ai.get();
            }
            if (optional && min > 1 && !yes("confirm_action", sa, title, () -> true)) {
                return CardCollection.EMPTY; // "3 to 5 or none at all" is two questions
            }
            return cards(title, sa, source, optional && min == 1 ? 0 : min, max, ai);
        }

        @Override
        public <T extends GameEntity> T chooseSingleEntityForEffect(FCollectionView<T> options, DelayedReveal delayed,
                SpellAbility sa, String title, boolean optional, Player related, Map<String, Object> params) {
            Supplier<T> ai = () -> super.chooseSingleEntityForEffect(options, delayed, sa, title, optional, related, params);
            if (quiet()) {
                return ai.get();
            }
            reveal(delayed);
            return one("choose_entity", sa, title, list(options), optional, things(), ai);
        }

        @Override
        public <T extends GameEntity> List<T> chooseEntitiesForEffect(FCollectionView<T> options, int min, int max,
                DelayedReveal delayed, SpellAbility sa, String title, Player related, Map<String, Object> params) {
            Supplier<List<T>> ai = () -> super.chooseEntitiesForEffect(options, min, max, delayed, sa, title, related, params);
            if (quiet()) {
                return ai.get();
            }
            reveal(delayed);
            return set("choose_cards", sa, message(title), list(options), min, max, things(), ai);
        }

        @Override
        public Card chooseSingleCardForZoneChange(ZoneType destination, List<ZoneType> origin, SpellAbility sa,
                CardCollection options, DelayedReveal delayed, String prompt, boolean optional, Player decider) {
            Supplier<Card> ai = () -> super.chooseSingleCardForZoneChange(destination, origin, sa, options, delayed, prompt,
                    optional, decider);
            if (quiet()) {
                return ai.get();
            }
            reveal(delayed);
            return one("choose_entity", sa, prompt, list(options), optional, things(), ai);
        }

        @Override
        public List<Card> chooseCardsForZoneChange(ZoneType destination, List<ZoneType> origin, SpellAbility sa,
                CardCollection options, int min, int max, DelayedReveal delayed, String prompt, Player decider) {
            if (quiet()) {
                return super.chooseCardsForZoneChange(destination, origin, sa, options, min, max, delayed, prompt, decider);
            }
            reveal(delayed);
            return cardList(prompt, sa, options, min, max, () -> super.chooseCardsForZoneChange(destination, origin, sa, options,
                    min, max, delayed, prompt, decider));
        }

        @Override
        public CardCollection chooseCardsForEffectMultiple(Map<String, CardCollection> valid, SpellAbility sa, String title,
                boolean optional) {
            if (quiet()) {
                return super.chooseCardsForEffectMultiple(valid, sa, title, optional);
            }
            CardCollection result = new CardCollection();
            for (Map.Entry<String, CardCollection> entry : valid.entrySet()) {
                CardCollection options = new CardCollection(entry.getValue());
                options.removeAll(result);
                Card chosen = one("choose_entity", sa, title + " (" + entry.getKey() + ")", list(options), optional, things(),
                        () -> null);
                if (chosen != null) {
                    result.add(chosen);
                }
            }
            return result;
        }

        /** "Discard two cards unless you discard a land": the words are types, in later versions restrictions. */
        private CardCollection discardUnless(int count, CardCollectionView hand, String[] words, boolean types, SpellAbility sa,
                Supplier<CardCollectionView> ai) {
            List<Card> typed = new ArrayList<>();
            for (Card card : hand) {
                for (String word : words) {
                    boolean fits = types ? card.getType().hasStringType(word)
                            : card.isValid(word, sa.getActivatingPlayer(), sa.getHostCard(), sa);
                    if (fits && !typed.contains(card)) {
                        typed.add(card);
                    }
                }
            }
            String type = String.join(",", words);
            if (!typed.isEmpty() && yes("confirm_action", sa, "Discard one " + type + " card instead of " + count, () -> true)) {
                return cards("Discard " + type, sa, typed, 1, 1, ai);
            }
            return cards("Discard", sa, hand, count, count, ai);
        }

        @Override
        public CardCollection chooseCardsToDiscardToMaximumHandSize(int count) {
            Supplier<CardCollectionView> ai = () -> super.chooseCardsToDiscardToMaximumHandSize(count);
            return quiet() ? copy(ai.get()) : cards("Discard to the maximum hand size", null, player.getCardsIn(ZoneType.Hand), count,
                    count, ai);
        }

        @Override
        public CardCollection chooseCardsToRevealFromHand(int min, int max, CardCollectionView valid) {
            Supplier<CardCollectionView> ai = () -> super.chooseCardsToRevealFromHand(min, max, valid);
            return quiet() ? copy(ai.get()) : cards("Reveal", null, valid, min, max, ai);
        }

        // ---- libraries

        private ImmutablePair<CardCollection, CardCollection> arrange(CardCollection cards, String bottom,
                Supplier<ImmutablePair<CardCollection, CardCollection>> ai) {
            List<Card> options = list(cards);
            show(options);
            try {
                return table.<ImmutablePair<CardCollection, CardCollection>>ask(this, "scry", json -> {
                    options(json, options, things());
                    json.put("bottom", bottom);
                }, "", text -> {
                    List<Card> low = select(options, indices(text, options.size(), 0, options.size(), false));
                    CardCollection high = new CardCollection(options);
                    high.removeAll(low);
                    return ImmutablePair.of(high, new CardCollection(low));
                }, ai, pair -> said(pair.getRight(), options));
            } finally {
                shown.clear();
            }
        }

        @Override
        public ImmutablePair<CardCollection, CardCollection> arrangeForScry(CardCollection cards) {
            return quiet() ? super.arrangeForScry(cards) : arrange(cards, "library", () -> super.arrangeForScry(cards));
        }

        @Override
        public ImmutablePair<CardCollection, CardCollection> arrangeForSurveil(CardCollection cards) {
            return quiet() ? super.arrangeForSurveil(cards) : arrange(cards, "graveyard", () -> super.arrangeForSurveil(cards));
        }

        @Override
        public boolean willPutCardOnTop(Card card) {
            if (quiet()) {
                return super.willPutCardOnTop(card);
            }
            shown.add(card.getId());
            try {
                return yes("confirm_action", null, "Leave " + card.getName() + " on top of the library",
                        () -> super.willPutCardOnTop(card));
            } finally {
                shown.clear();
            }
        }

        @Override
        public CardCollectionView orderMoveToZoneList(CardCollectionView cards, ZoneType destination, SpellAbility source) {
            if (quiet() || cards.size() < 2 || destination != ZoneType.Library) {
                return super.orderMoveToZoneList(cards, destination, source);
            }
            return new CardCollection(order("order", source, "Order of the cards, the first on top", list(cards), things(),
                    () -> super.orderMoveToZoneList(cards, destination, source)));
        }

        // ---- yes or no

        @Override
        public boolean confirmReplacementEffect(ReplacementEffect effect, SpellAbility sa, GameEntity affected, String question) {
            Supplier<Boolean> ai = () -> super.confirmReplacementEffect(effect, sa, affected, question);
            return quiet() ? ai.get() : yes("confirm_action", sa, question, ai);
        }

        @Override
        public boolean chooseBinary(SpellAbility sa, String question, BinaryChoiceType kind, Boolean fallback) {
            Supplier<Boolean> ai = () -> super.chooseBinary(sa, question, kind, fallback);
            return quiet() ? ai.get() : yes("confirm_action", sa, question + " (" + kind + ")", ai);
        }

        @Override
        public boolean chooseBinary(SpellAbility sa, String question, BinaryChoiceType kind, Map<String, Object> params) {
            Supplier<Boolean> ai = () -> super.chooseBinary(sa, question, kind, params);
            return quiet() ? ai.get() : yes("confirm_action", sa, question + " (" + kind + ")", ai);
        }

        @Override
        public boolean chooseCardsPile(SpellAbility sa, CardCollectionView pile1, CardCollectionView pile2, String faceUp) {
            Supplier<Boolean> ai = () -> super.chooseCardsPile(sa, pile1, pile2, faceUp);
            return quiet() ? ai.get() : yes("confirm_action", sa, "Take the first pile: " + names(pile1, faceUp, "One")
                    + "; the second pile: " + names(pile2, faceUp, ""), ai);
        }

        /** The names in a pile; a pile that lies face down is only counted. */
        private static String names(CardCollectionView pile, String faceUp, String alsoUp) {
            if (!faceUp.equals("True") && (alsoUp.isEmpty() || !faceUp.equals(alsoUp))) {
                return pile.size() + " cards";
            }
            List<String> names = new ArrayList<>();
            for (Card card : pile) {
                names.add(card.getName());
            }
            return names.isEmpty() ? "nothing" : String.join(", ", names);
        }

        /** "Counter it unless its controller pays 3", asked only when it can be paid. */
        @Override
        public boolean payCostToPreventEffect(Cost cost, SpellAbility sa, boolean paid, FCollectionView<Player> payers) {
            if (quiet()) {
                return super.payCostToPreventEffect(cost, sa, paid, payers);
            }
            SpellAbility payment = new Payment(sa.getHostCard(), cost, player, sa);
            if (!think(() -> ComputerUtilCost.canPayCost(payment, player, true))
                    || !yes("confirm_action", sa, "Pay " + cost, () -> Moves.willPay(player, sa, cost, paid, payers))) {
                return false;
            }
            return Moves.playNoStack(player, payment);
        }

        // ---- numbers, colours, texts

        @Override
        public int chooseNumber(SpellAbility sa, String title, int min, int max) {
            Supplier<Integer> ai = () -> super.chooseNumber(sa, title, min, max);
            return quiet() ? ai.get() : number(sa, title, min, max, ai);
        }

        @Override
        public int chooseNumber(SpellAbility sa, String title, int min, int max, Map<String, Object> params) {
            Supplier<Integer> ai = () -> super.chooseNumber(sa, title, min, max, params);
            return quiet() ? ai.get() : number(sa, title, min, max, ai);
        }

        @Override
        public int chooseNumber(SpellAbility sa, String title, List<Integer> values, Player related) {
            Supplier<Integer> ai = () -> super.chooseNumber(sa, title, values, related);
            return quiet() ? ai.get() : one("choose_ability", sa, title, values, false, texts(String::valueOf), ai);
        }

        @Override
        public int chooseNumberForKeywordCost(SpellAbility sa, Cost cost, forge.game.keyword.KeywordInterface keyword,
                String prompt, int max) {
            Supplier<Integer> ai = () -> super.chooseNumberForKeywordCost(sa, cost, keyword, prompt, max);
            if (quiet()) {
                return ai.get();
            }
            Cost total = sa.getPayCosts().copy();
            int most = 0;
            while (most < max && most < 20) {
                total.add(cost);
                SpellAbility dearer = sa.copyWithDefinedCost(total.copy());
                dearer.setActivatingPlayer(player);
                if (!think(() -> Moves.canPay(dearer, player))) {
                    break;
                }
                most++;
            }
            return most == 0 ? 0 : number(sa, prompt, 0, most, ai);
        }

        private byte color(String message, SpellAbility sa, ColorSet colors, boolean colorless, Supplier<Byte> ai) {
            List<Byte> options = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                if ((colors.getColor() & 1 << i) != 0) {
                    options.add((byte) (1 << i));
                }
            }
            if (colorless || options.isEmpty()) {
                options.add((byte) 0);
            }
            return one("choose_color", sa, message, options, false, (json, index, color) -> json.open().put("index", index)
                    .put("kind", "color").put("name", color == 0 ? "colorless" : MagicColor.toLongString(color)).close(), ai);
        }

        @Override
        public CounterType chooseCounterType(List<CounterType> options, SpellAbility sa, String prompt, Map<String, Object> params) {
            Supplier<CounterType> ai = () -> super.chooseCounterType(options, sa, prompt, params);
            return quiet() ? ai.get() : one("choose_ability", sa, prompt, options, false, texts(String::valueOf), ai);
        }

        /** Creature types and the like: those on cards that this seat owns or sees come into question, 250 do not. */
        private String someType(String kind, SpellAbility sa, Collection<?> valid, Collection<?> invalid, boolean optional,
                Supplier<String> ai) {
            Set<String> seen = new java.util.TreeSet<>();
            for (Card card : player.getAllCards()) {
                addTypes(seen, card);
            }
            for (Card card : getGame().getCardsIn(ZoneType.Battlefield)) {
                addTypes(seen, card);
            }
            List<String> options = new ArrayList<>();
            for (String type : seen) {
                if (valid.contains(type) && !invalid.contains(type)) {
                    options.add(type);
                }
            }
            return options.isEmpty() ? think(ai) : one("choose_ability", sa, "Choose a " + kind + " type", options, optional,
                    texts(text -> text), ai);
        }

        private static void addTypes(Set<String> types, Card card) {
            if (!card.isFaceDown()) {
                types.addAll(Arrays.asList(card.getType().toString().split("[ -]+")));
            }
        }

        @Override
        public SpellAbility chooseSingleSpellForEffect(List<SpellAbility> spells, SpellAbility sa, String title,
                Map<String, Object> params) {
            Supplier<SpellAbility> ai = () -> super.chooseSingleSpellForEffect(spells, sa, title, params);
            return quiet() ? ai.get() : one("choose_ability", sa, title, spells, false, texts(View::describe), ai);
        }

        @Override
        public List<SpellAbility> chooseSpellAbilitiesForEffect(List<SpellAbility> spells, SpellAbility sa, String title, int count,
                Map<String, Object> params) {
            Supplier<List<SpellAbility>> ai = () -> super.chooseSpellAbilitiesForEffect(spells, sa, title, count, params);
            return quiet() ? ai.get() : set("choose_mode", sa, json -> json.put("message", oneLine(title)).put("repeat", false),
                    spells, count, count, texts(View::describe), ai);
        }

        @Override
        public SpellAbility getAbilityToPlay(Card host, List<SpellAbility> abilities, forge.util.ITriggerEvent event) {
            Supplier<SpellAbility> ai = () -> super.getAbilityToPlay(host, abilities, event);
            return quiet() ? ai.get() : one("choose_ability", null, "Choose what to play", abilities, false,
                    texts(View::describe), ai);
        }

        // ---- before the first turn

        @Override
        public Player chooseStartingPlayer(boolean firstGame) {
            int first = table.request.first;
            return first < 0 ? super.chooseStartingPlayer(firstGame) : table.seats[first].getPlayer();
        }

        @Override
        public boolean mulliganKeepHand(Player first, int toReturn) {
            Supplier<Boolean> mulligan = () -> !super.mulliganKeepHand(first, toReturn);
            if (quiet() || !table.request.mulligans) {
                return !think(mulligan);
            }
            return !table.<Boolean>ask(this, "mulligan", json -> json.put("hand_size", player.getCardsIn(ZoneType.Hand).size())
                    .put("mulligans", toReturn), "n", Seat::yesOrNo, mulligan, choice -> choice ? "y" : "n");
        }

        private CardCollectionView bottom(CardCollectionView hand, int count, Supplier<CardCollectionView> ai) {
            return !table.request.mulligans ? think(ai)
                    : cards("Put on the bottom of the library", null, hand, count, count, ai);
        }

        // ---- reveals

        private void reveal(DelayedReveal delayed) {
            if (delayed != null) {
                revealed(delayed.getCards(), delayed.getZone(), delayed.getOwner(), delayed.getMessagePrefix());
            }
        }

        /** Cards or their views, of a player or its view: the engine has both. */
        private void revealed(Iterable<?> things, Object zone, Object owner, String prefix) {
            List<Card> cards = new ArrayList<>();
            for (Object thing : things) {
                Card card = thing instanceof CardView ? getGame().findById(((CardView) thing).getId()) : (Card) thing;
                if (card != null) {
                    cards.add(card);
                }
            }
            Player player = owner instanceof PlayerView ? getGame().getPlayer((PlayerView) owner) : (Player) owner;
            revealed(cards, zone, table.seatOf(player), prefix);
        }

        private void revealed(List<Card> cards, Object zone, int owner, String prefix) {
            if (thinking > 0 || cards.isEmpty()) {
                return;
            }
            show(cards);
            table.tell(this, "reveal", json -> {
                json.put("owner", owner).put("zone", zone instanceof Collection ? join((Collection<?>) zone)
                        : String.valueOf(zone)).put("message", oneLine(prefix)).array("cards");
                for (Card card : cards) {
                    view.card(json, card, false);
                }
                json.end();
            });
            shown.clear();
        }

        // ---- questions that Forge's versions put differently, see Bridge

        /** The first argument of a type; null: none, or it is null. */
        private static <T> T argument(Object[] given, Class<T> type) {
            return argument(given, type, 0);
        }

        private static <T> T argument(Object[] given, Class<T> type, int skipped) {
            for (Object value : given) {
                if (type.isInstance(value) && skipped-- == 0) {
                    return type.cast(value);
                }
            }
            return null;
        }

        @SuppressWarnings("unchecked")
        private static <T> T cast(Object value) {
            return (T) value;
        }

        /** One of the methods of Bridge was called. Its arguments are known by their types. */
        Object bridged(Method method, Object[] given) {
            Supplier<Object> ai = () -> Super.call(this, method, given);
            if (method.getName().equals("reveal")) {
                Player owner = argument(given, Player.class);
                revealed(argument(given, Iterable.class), argument(given, ZoneType.class),
                        owner == null ? argument(given, PlayerView.class) : owner, argument(given, String.class));
                return think(ai);
            }
            return quiet() ? ai.get() : bridged(method, given, ai);
        }

        private Object bridged(Method method, Object[] given, Supplier<Object> ai) {
            SpellAbility source = argument(given, SpellAbility.class);
            String text = argument(given, String.class);
            CardCollectionView cards = argument(given, CardCollectionView.class);
            switch (method.getName()) {
                case "announceRequirements":
                    return announced(source, text);
                case "confirmAction":
                    return yes("confirm_action", source, text, cast(ai));
                case "confirmStaticApplication": // the AI's hint came before the question, later behind it
                    boolean behind = argument(given, PlayerActionConfirmMode.class) != null;
                    return yes("confirm_action", null, behind ? text : argument(given, String.class, 1), cast(ai));
                case "chooseColor":
                case "chooseColorAllowColorless":
                    return chooseColor(method, given, ai);
                case "chooseColors":
                    return chooseColors(given, ai);
                case "chooseProtectionType":
                    List<String> protections = cast(argument(given, List.class));
                    return one("choose_ability", source, text, protections, false, texts(String::valueOf), cast(ai));
                case "chooseSomeType":
                    Collection<?> invalid = argument(given, Collection.class, 1);
                    return someType(text, source, argument(given, Collection.class), invalid == null ? Collections.emptyList()
                            : invalid, argument(given, Boolean.class), cast(ai));
                case "chooseSingleReplacementEffect":
                    List<Object> effects = cast(argument(given, List.class));
                    return one("choose_ability", null, text, effects, false, texts(String::valueOf), ai);
                case "enlistAttackers":
                    List<Card> attackers = cast(argument(given, List.class));
                    return set("choose_cards", null, message("Enlist attackers"), attackers, 0, attackers.size(), things(), cast(ai));
                case "orderBlockers":
                    return cards.size() < 2 ? ai.get() : new CardCollection(order("order", null, "Order in which "
                            + view.name(argument(given, Card.class)) + " damages its blockers", list(cards), things(), cast(ai)));
                case "chooseCardsToDiscardFrom":
                    return cards("Discard", source, cards, argument(given, Integer.class), argument(given, Integer.class, 1), cast(ai));
                case "chooseCardsToDiscardUnlessType":
                    String[] words = text == null ? argument(given, String[].class) : text.split(",");
                    return discardUnless(argument(given, Integer.class), cards, words, text != null, source, cast(ai));
                case "londonMulliganReturnCards":
                case "tuckCardsViaMulligan":
                    return bottom(cards == null ? argument(given, Player.class).getCardsIn(ZoneType.Hand) : cards,
                            argument(given, Integer.class), cast(ai));
                case "playTrigger":
                    return !remote ? think(ai) : Moves.hasTargets(source) && (Moves.ROLLBACK == null || hasModes(source))
                            && source.setupTargets() && Moves.playNoStack(player, source);
                default:
                    return remote ? bridgedRemote(method, given, ai) : ai.get();
            }
        }

        /** Where more is done than asked, which in observe mode is left to Forge's AI. */
        private Object bridgedRemote(Method method, Object[] given, Supplier<Object> ai) {
            SpellAbility source = argument(given, SpellAbility.class);
            switch (method.getName()) {
                case "playSpellAbilityForFree":
                    source.setActivatingPlayer(player);
                    if (!argument(given, Boolean.class) || source.setupTargets()) {
                        Reflect.call(Moves.FOR_FREE, null, player, source);
                    }
                    return null;
                case "chooseNewTargetsFor":
                    Predicate<GameObject> old = cast(argument(given, Predicate.class));
                    return newTargets(source, old != null ? old::apply : cast(argument(given, java.util.function.Predicate.class)),
                            argument(given, Boolean.class));
                case "payManaOptional":
                case "payCombatCost":
                    Card card = argument(given, Card.class);
                    Cost cost = argument(given, Cost.class);
                    String prompt = argument(given, String.class);
                    SpellAbility payment = new Payment(card, cost, card.getController(), source);
                    return think(() -> ComputerUtilCost.canPayCost(payment, card.getController(), true))
                            && yes("confirm_action", source, prompt == null ? "Pay " + cost : prompt, () -> true)
                            && (Boolean) think(ai);
                default:
                    return ai.get();
            }
        }

        /** A colour is a byte, or an enum constant that knows its byte. */
        private Object chooseColor(Method method, Object[] given, Supplier<Object> ai) {
            SpellAbility source = argument(given, SpellAbility.class);
            if (source != null && source.isManaAbility()) {
                return ai.get();
            }
            Map<Byte, Object> constants = new HashMap<>();
            for (Object constant : method.getReturnType() == byte.class ? new Object[0] : method.getReturnType().getEnumConstants()) {
                constants.put(colorMask(constant), constant);
            }
            byte chosen = color(argument(given, String.class), source, argument(given, ColorSet.class),
                    method.getName().endsWith("Colorless"), () -> colorMask(ai.get()));
            return constants.isEmpty() ? chosen : constants.get(chosen);
        }

        private static Byte colorMask(Object color) {
            return color instanceof Byte ? (Byte) color
                    : (Byte) Reflect.call(Reflect.method(color.getClass(), "getColorMask", 0), color);
        }

        /** Several colours: their names, or a set of them. */
        private Object chooseColors(Object[] given, Supplier<Object> ai) {
            List<String> names = cast(argument(given, List.class));
            boolean set = names == null;
            List<String> options = set ? colorNames(argument(given, ColorSet.class)) : names;
            Supplier<List<String>> mine = () -> set ? colorNames((ColorSet) ai.get()) : Seat.<List<String>>cast(ai.get());
            List<String> chosen = set("choose_mode", argument(given, SpellAbility.class), json -> json.put("message",
                    oneLine(argument(given, String.class))).put("repeat", false), options, argument(given, Integer.class),
                    argument(given, Integer.class, 1), texts(text -> text), mine);
            if (!set) {
                return chosen;
            }
            int mask = 0;
            for (int i = 0; i < 5; i++) {
                mask |= chosen.contains(MagicColor.toLongString((byte) (1 << i))) ? 1 << i : 0;
            }
            return ColorSet.fromMask(mask);
        }

        private static List<String> colorNames(ColorSet colors) {
            List<String> names = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                if ((colors.getColor() & 1 << i) != 0) {
                    names.add(MagicColor.toLongString((byte) (1 << i)));
                }
            }
            return names;
        }
    }

    /** A cost that is paid for its own sake; nothing resolves. */
    private static final class Payment extends SpellAbility {
        Payment(Card host, Cost cost, Player payer, SpellAbility cause) {
            super(host, cost);
            setActivatingPlayer(payer);
            setTriggeringObjects(cause.getTriggeringObjects());
            setSVars(cause.getSVars());
            setCardState(cause.getCardState());
            setXManaCostPaid(cause.getRootAbility().getXManaCostPaid());
        }

        @Override
        public boolean canPlay() {
            return true;
        }

        @Override
        public void resolve() {
            // the payment is all
        }
    }

    /** Calls the inherited method that a method of Bridge stands for. */
    private static final class Super {
        private static final Map<Method, MethodHandle> HANDLES = new java.util.concurrent.ConcurrentHashMap<>();

        static Object call(Seat seat, Method method, Object... arguments) {
            Object[] all = new Object[arguments.length + 1];
            all[0] = seat;
            System.arraycopy(arguments, 0, all, 1, arguments.length);
            try {
                return HANDLES.computeIfAbsent(method, Super::find).invokeWithArguments(all);
            } catch (RuntimeException | Error problem) {
                throw problem;
            } catch (Throwable problem) {
                throw new IllegalStateException(problem);
            }
        }

        private static MethodHandle find(Method method) {
            try {
                return MethodHandles.privateLookupIn(Seat.class, MethodHandles.lookup()).unreflectSpecial(method, Seat.class);
            } catch (IllegalAccessException hidden) {
                throw new IllegalStateException(hidden);
            }
        }
    }

    /**
     * A subclass of Seat made at run time, for methods whose parameters or results differ between versions of Forge, so that
     * no Java source overrides them everywhere. For each such method that this Forge has it holds
     * `return (R) bridged(METHODS[i], new Object[] {a, b, ..});`, written as the few instructions that this takes.
     */
    private static final class Bridge {
        /**
         * The questions: names ("|": or, "?": not every version asks it), the answer, and what has to be among the arguments.
         * Null is whatever `bridged` can make of it.
         */
        private static final Object[][] QUESTIONS = {
            {"reveal", Void.class, Iterable.class, ZoneType.class, String.class},
            {"announceRequirements", Integer.class, SpellAbility.class, String.class},
            {"confirmAction", Boolean.class, SpellAbility.class, String.class},
            {"confirmStaticApplication", Boolean.class, String.class},
            {"chooseColor", null, String.class, SpellAbility.class, ColorSet.class},
            {"chooseColorAllowColorless", null, String.class, ColorSet.class},
            {"chooseColors", null, SpellAbility.class, Integer.class},
            {"chooseProtectionType", String.class, SpellAbility.class, List.class},
            {"chooseSomeType", String.class, String.class, SpellAbility.class, Collection.class, Boolean.class},
            {"chooseSingleReplacementEffect", ReplacementEffect.class, List.class},
            {"?enlistAttackers", List.class, List.class},
            {"?orderBlockers", CardCollection.class, Card.class, CardCollectionView.class},
            {"chooseCardsToDiscardFrom", CardCollection.class, SpellAbility.class, CardCollectionView.class, Integer.class},
            {"chooseCardsToDiscardUnlessType", CardCollection.class, Integer.class, CardCollectionView.class, SpellAbility.class},
            {"londonMulliganReturnCards|tuckCardsViaMulligan", CardCollection.class, Integer.class},
            {"playTrigger", Boolean.class, SpellAbility.class},
            {"?playSpellAbilityForFree", Void.class, SpellAbility.class, Boolean.class},
            {"chooseNewTargetsFor", TargetChoices.class, SpellAbility.class, Boolean.class},
            {"payManaOptional|payCombatCost", Boolean.class, Card.class, Cost.class, SpellAbility.class},
        };
        private static final List<Method> METHODS = new ArrayList<>();
        private static Constructor<?> make;

        private final java.io.ByteArrayOutputStream pool = new java.io.ByteArrayOutputStream();
        private final Map<String, Integer> known = new HashMap<>();

        static Seat seat(Game game, Player player, SeatPlayer lobby, Table table, int number) {
            try {
                return make == null ? new Seat(game, player, lobby, table, number)
                        : (Seat) make.newInstance(game, player, lobby, table, number);
            } catch (ReflectiveOperationException failed) {
                throw new IllegalStateException(failed);
            }
        }

        static Object call(Seat seat, int index, Object[] arguments) {
            return seat.bridged(METHODS.get(index), arguments);
        }

        /** Finds the methods and makes the class; tells what this version of Forge asks in a way that is not understood. */
        static void prepare() {
            List<String> foreign = new ArrayList<>();
            for (Object[] question : QUESTIONS) {
                String names = ((String) question[0]).replace("?", "");
                boolean needed = names.equals(question[0]);
                int before = METHODS.size();
                for (Method method : PlayerControllerAi.class.getDeclaredMethods()) {
                    if (Arrays.asList(names.split("\\|")).contains(method.getName()) && Modifier.isPublic(method.getModifiers())
                            && !Modifier.isFinal(method.getModifiers()) && !method.isBridge()) {
                        needed = true;
                        if (understood(method, question)) {
                            METHODS.add(method);
                        }
                    }
                }
                if (needed && METHODS.size() == before) {
                    foreign.add(names);
                }
            }
            METHODS.sort(java.util.Comparator.comparing(Method::toString));
            try {
                Class<?> made = MethodHandles.privateLookupIn(Seat.class, MethodHandles.lookup()).defineClass(new Bridge().file());
                make = made.getDeclaredConstructors()[0];
                make.setAccessible(true);
            } catch (IllegalAccessException | IOException | RuntimeException | LinkageError failed) {
                foreign = Arrays.asList("all of Bridge: " + failed);
            }
            if (!foreign.isEmpty()) {
                System.err.println("asked otherwise by Forge " + Engine.version() + " and left to its AI: " + String.join(", ", foreign));
            }
        }

        private static boolean understood(Method method, Object[] question) {
            MethodType type = MethodType.methodType(method.getReturnType(), method.getParameterTypes()).wrap();
            List<Class<?>> parameters = new ArrayList<>(type.parameterList());
            for (int i = 2; i < question.length; i++) {
                Class<?> wanted = (Class<?>) question[i];
                if (parameters.stream().noneMatch(wanted::isAssignableFrom)) {
                    return false;
                }
            }
            Class<?> answer = type.returnType();
            return answer == Void.class || (question[1] != null ? answer.isAssignableFrom((Class<?>) question[1])
                    : answer == Byte.class || answer == List.class || answer.isEnum() || answer == ColorSet.class);
        }

        private byte[] file() throws IOException {
            java.io.ByteArrayOutputStream body = new java.io.ByteArrayOutputStream();
            java.io.DataOutputStream out = new java.io.DataOutputStream(body);
            out.writeShort(Modifier.FINAL | 0x20);
            out.writeShort(type("ForgeDaemon$BridgedSeat"));
            out.writeShort(type(name(Seat.class)));
            out.writeShort(0); // interfaces
            out.writeShort(0); // fields
            out.writeShort(METHODS.size() + 1);
            Constructor<?> parent = Seat.class.getDeclaredConstructors()[0];
            writeMethod(out, 0, "<init>", parent.getParameterTypes(), void.class, -1);
            for (int i = 0; i < METHODS.size(); i++) {
                Method method = METHODS.get(i);
                writeMethod(out, Modifier.PUBLIC, method.getName(), method.getParameterTypes(), method.getReturnType(), i);
            }
            out.writeShort(0); // attributes
            java.io.ByteArrayOutputStream result = new java.io.ByteArrayOutputStream();
            java.io.DataOutputStream head = new java.io.DataOutputStream(result);
            head.writeInt(0xCAFEBABE);
            head.writeInt(52);
            head.writeShort(known.size() + 1);
            pool.writeTo(head);
            body.writeTo(head);
            return result.toByteArray();
        }

        /** A method without branches; index -1 is the constructor. */
        private void writeMethod(java.io.DataOutputStream out, int flags, String name, Class<?>[] parameters, Class<?> result,
                int index) throws IOException {
            java.io.ByteArrayOutputStream code = new java.io.ByteArrayOutputStream();
            java.io.DataOutputStream to = new java.io.DataOutputStream(code);
            int slots = index < 0 ? parentCall(to, parameters) : bridgedCall(to, parameters, result, index);
            String descriptor = MethodType.methodType(result, parameters).toMethodDescriptorString();
            out.writeShort(flags);
            out.writeShort(utf8(name));
            out.writeShort(utf8(descriptor));
            out.writeShort(1);
            out.writeShort(utf8("Code"));
            out.writeInt(12 + code.size());
            out.writeShort(slots + 8); // stack
            out.writeShort(slots); // locals
            out.writeInt(code.size());
            code.writeTo(out);
            out.writeShort(0); // exceptions
            out.writeShort(0); // attributes
        }

        private int parentCall(java.io.DataOutputStream to, Class<?>[] parameters) throws IOException {
            to.writeByte(0x2a); // aload_0
            int slot = 1;
            for (Class<?> parameter : parameters) {
                slot = load(to, parameter, slot);
            }
            to.writeByte(0xb7); // invokespecial
            to.writeShort(method(name(Seat.class), "<init>", MethodType.methodType(void.class, parameters)));
            to.writeByte(0xb1); // return
            return slot;
        }

        private int bridgedCall(java.io.DataOutputStream to, Class<?>[] parameters, Class<?> result, int index) throws IOException {
            to.writeByte(0x2a);
            push(to, index);
            push(to, parameters.length);
            to.writeByte(0xbd); // anewarray
            to.writeShort(type("java/lang/Object"));
            int slot = 1;
            for (int i = 0; i < parameters.length; i++) {
                to.writeByte(0x59); // dup
                push(to, i);
                slot = load(to, parameters[i], slot);
                if (parameters[i].isPrimitive()) {
                    Class<?> box = MethodType.methodType(parameters[i]).wrap().returnType();
                    to.writeByte(0xb8); // invokestatic
                    to.writeShort(method(name(box), "valueOf", MethodType.methodType(box, parameters[i])));
                }
                to.writeByte(0x53); // aastore
            }
            to.writeByte(0xb8);
            to.writeShort(method(name(Bridge.class), "call", MethodType.methodType(Object.class, Seat.class, int.class, Object[].class)));
            give(to, result);
            return slot;
        }

        private void give(java.io.DataOutputStream to, Class<?> result) throws IOException {
            if (result == void.class) {
                to.writeByte(0x57); // pop
                to.writeByte(0xb1);
                return;
            }
            Class<?> box = MethodType.methodType(result).wrap().returnType();
            to.writeByte(0xc0); // checkcast
            to.writeShort(type(name(box)));
            if (result.isPrimitive()) {
                to.writeByte(0xb6); // invokevirtual
                to.writeShort(method(name(box), result.getName() + "Value", MethodType.methodType(result)));
            }
            to.writeByte(result.isPrimitive() ? 0xac : 0xb0); // ireturn, areturn: no long or double among them
        }

        private static int load(java.io.DataOutputStream to, Class<?> type, int slot) throws IOException {
            to.writeByte(type.isPrimitive() ? 0x15 : 0x19); // iload, aload: no long or double among them
            to.writeByte(slot);
            return slot + 1;
        }

        private static void push(java.io.DataOutputStream to, int value) throws IOException {
            to.writeByte(0x11); // sipush
            to.writeShort(value);
        }

        private static String name(Class<?> type) {
            return type.getName().replace('.', '/');
        }

        private int utf8(String text) throws IOException {
            return entry("u" + text, out -> {
                out.writeByte(1);
                out.writeUTF(text);
            });
        }

        private int type(String name) throws IOException {
            int text = utf8(name);
            return entry("c" + name, out -> {
                out.writeByte(7);
                out.writeShort(text);
            });
        }

        private int method(String owner, String name, MethodType type) throws IOException {
            int ownerAt = type(owner);
            int nameAt = utf8(name);
            int typeAt = utf8(type.toMethodDescriptorString());
            int pair = entry("n" + name + type.toMethodDescriptorString(), out -> {
                out.writeByte(12);
                out.writeShort(nameAt);
                out.writeShort(typeAt);
            });
            return entry("m" + owner + "." + name + type.toMethodDescriptorString(), out -> {
                out.writeByte(10);
                out.writeShort(ownerAt);
                out.writeShort(pair);
            });
        }

        private int entry(String key, PoolWriter writer) throws IOException {
            Integer at = known.get(key);
            if (at == null) {
                writer.write(new java.io.DataOutputStream(pool));
                at = known.size() + 1;
                known.put(key, at);
            }
            return at;
        }

        /** Writes an entry of the constant pool. */
        private interface PoolWriter {
            void write(java.io.DataOutputStream out) throws IOException;
        }
    }
}
