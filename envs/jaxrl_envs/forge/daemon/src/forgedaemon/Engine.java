// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.*;
import forge.ai.AiProfileUtil;
import forge.ai.ability.ChangeZoneAi;
import forge.card.CardType;
import forge.deck.Deck;
import forge.deck.io.DeckSerializer;
import forge.game.Game;
import forge.game.card.CardCollection;
import forge.game.card.CardUtil;
import forge.item.PaperCard;
import forge.util.*;
import java.io.File;
import java.lang.reflect.*;
import java.nio.file.*;
import java.util.*;
import java.util.function.*;

/** Loading of Forge's data without any class of its GUI, and the state that Forge keeps per JVM. */
final class Engine {
    private static final String LANGUAGE = "en-US";
    private static final String NOWHERE = "no-such-folder" + File.separator;
    private static final Map<File, CachedDeck> decks = new HashMap<>();
    private static List<Path> deckFolders;
    private static boolean stock;

    /** The version that the name of the jar tells, for jars whose manifest does not. */
    static String toldVersion = "unknown";

    static String version() {
        String version = BuildInfo.getVersionString();
        return version == null || version.isEmpty() || version.equals("GIT") ? toldVersion : version;
    }

    /** Whether a seed gives the same game in every JVM. */
    static boolean repeats() {
        return Hashes.allowed() && shuffles != null;
    }

    /** Whether the short cuts are not taken: what they are measured and checked against. */
    static boolean stock() {
        return stock;
    }

    static void boot(File res, List<Path> folders, boolean withoutShortCuts) {
        deckFolders = folders;
        stock = withoutShortCuts;
        String base = res.getPath() + File.separator;
        Lang.createInstance(LANGUAGE);
        Localizer.getInstance().initialize(LANGUAGE, base + "languages" + File.separator);
        Hashes.pin(); // before anything of Forge is used but its texts, which its enum types need
        findShuffles();
        loadTypes(base + "lists" + File.separator);
        noImages(base);
        loadCards(base);
        AiProfileUtil.loadAllProfiles(base + "ai" + File.separator);
        if (!stock && !version().matches("1\\.6\\.5[03-5]\\b.*")) {
            stock = true; // a later card may do what a short cut takes for impossible
            System.err.println("the short cuts were not compared on Forge " + version() + ": it is played as with --stock");
        }
        for (String name : COUNTED) {
            Class<?> type = Reflect.type("forge.game." + name);
            Field counter = type == null ? null : Reflect.field(type, "maxId", int.class);
            if (counter != null) {
                COUNTERS.add(counter);
            }
        }
        Bridge.prepare();
    }

    /** Card types and keyword lists, which FModel.loadDynamicGamedata reads in the desktop program. */
    private static void loadTypes(String lists) {
        if (CardType.Constant.LOADED.isSet()) {
            return;
        }
        Map<String, Collection<String>> sections = new HashMap<>();
        for (Field field : CardType.Constant.class.getFields()) {
            String name = field.getName();
            if (name.endsWith("_TYPES") && Collection.class.isAssignableFrom(field.getType())) {
                String words = name.substring(0, name.length() - "_TYPES".length()).replace("_", "");
                sections.put(words.toLowerCase() + "types", words(field));
            }
        }
        Class<?> helper = Reflect.type("forge.card.CardType$Helper"); // later versions read the lines themselves
        Method parse = helper == null ? null : Reflect.method(helper, "parseTypes", 2);
        Collection<String> section = null;
        String title = "";
        for (String line : FileUtil.readFile(lists + "TypeLists.txt")) {
            if (line.startsWith("[")) {
                title = line.substring(1, line.indexOf(']'));
                section = sections.get(title.toLowerCase());
            } else if (parse != null) {
                Reflect.call(parse, null, title, List.of(line));
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
                    words(stacking).add(line);
                }
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static Collection<String> words(Field field) {
        return (Collection<String>) Reflect.get(field, null);
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
        Constructor<?> longest = Collections.max(Arrays.asList(StaticData.class.getConstructors()),
                Comparator.comparingInt(Constructor::getParameterCount));
        String nowhere = base + NOWHERE;
        Iterator<Object> readers = List.<Object>of(cards, tokens).iterator();
        Iterator<Object> texts = List.<Object>of(base + "editions" + File.separator, nowhere,
                base + "blockdata" + File.separator, base + "setlookup" + File.separator,
                "LATEST_ART_ALL_EDITIONS").iterator();
        Iterator<Object> flags = List.<Object>of(true, true).iterator();
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
    private static final Field RANDOM = Reflect.field(MyRandom.class, "random");

    static void setRandom(Random random) {
        if (SET_RANDOM != null) {
            Reflect.call(SET_RANDOM, null, random);
        } else {
            Reflect.set(RANDOM, null, random);
        }
    }

    private static Random shuffler;

    private static void setShuffler(Random random) {
        shuffler = random;
        if (shuffles != null) {
            shuffles.accept(random);
        }
    }

    /** Everything that Forge keeps per JVM and that a game depends on: the generator and the id counters. */
    static void reset(long seed) {
        setRandom(new Random(seed));
        setShuffler(new Random(~seed));
        COUNTERS.forEach(counter -> Reflect.set(counter, null, 0));
    }

    /** Cards that Forge's AI means to search for next. */
    private static final Field CHOICES = Reflect.field(ChangeZoneAi.class, "multipleCardsToChoose", CardCollection.class);

    /** Runs something of Forge that must not be noticed by the game: with generators of its own, the id counters put back. */
    static <T> T apart(long seed, Supplier<T> what) {
        Random random = MyRandom.getRandom();
        Random shuffler = Engine.shuffler;
        Object[] counts = COUNTERS.stream().map(counter -> Reflect.get(counter, null)).toArray();
        Object choices = CHOICES == null ? null : Reflect.get(CHOICES, null);
        setRandom(new Random(seed));
        setShuffler(new Random(~seed));
        Reflect.set(CHOICES, null, new CardCollection());
        try {
            return what.get();
        } finally {
            Reflect.set(CHOICES, null, choices);
            setRandom(random);
            setShuffler(shuffler);
            for (int i = 0; i < counts.length; i++) {
                Reflect.set(COUNTERS.get(i), null, counts[i]);
            }
        }
    }

    /** Later versions stop the AI by the clock, after 5 s; a slow machine should not play another game for that. */
    static void patient(Game game, double seconds) {
        int limit = (int) Math.min(1_000_000, Math.max(5, seconds / 4));
        Reflect.set(Reflect.field(Game.class, "AI_TIMEOUT", int.class), game, limit);
        Reflect.set(Reflect.field(Game.class, "AI_CAN_USE_TIMEOUT", boolean.class), game, false);
    }

    static final String[] COUNTED = {
        "Game", "cost.IndividualCostPaymentInstance", "replacement.ReplacementEffect", "spellability.SpellAbility",
        "spellability.SpellAbilityStackInstance", "staticability.StaticAbility", "trigger.Trigger",
    };

    private static final List<Field> COUNTERS = new ArrayList<>();

    private record CachedDeck(Deck deck, long time) {}

    /** A deck, read again when its file has changed. Printings are chosen by a fixed generator. */
    static Deck deck(String name) {
        File file = deckFile(name);
        CachedDeck cached = decks.get(file);
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
            decks.put(file, cached);
        }
        return (Deck) cached.deck.copyTo(cached.deck.getName());
    }

    /** A deck by its name or whole path, which must lie below one of the folders. */
    static File deckFile(String name) {
        for (Path folder : deckFolders) {
            for (String ending : List.of("", ".dck")) {
                Path file = folder.resolve(name + ending).normalize();
                if (file.startsWith(folder) && Files.isRegularFile(file)) {
                    return file.toFile();
                }
            }
        }
        throw new Refusal("no deck " + name + " in the daemon's folders of decks");
    }

    /** What a deck is called in the name of its seat. */
    static String deckLabel(String name) {
        String label = new File(name).getName();
        return label.endsWith(".dck") ? label.substring(0, label.length() - 4) : label;
    }
}
