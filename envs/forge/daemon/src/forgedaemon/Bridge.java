// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.ai.PlayerControllerAi;
import forge.card.ColorSet;
import forge.game.Game;
import forge.game.card.*;
import forge.game.cost.Cost;
import forge.game.player.Player;
import forge.game.replacement.ReplacementEffect;
import forge.game.spellability.SpellAbility;
import forge.game.spellability.TargetChoices;
import forge.game.zone.ZoneType;
import java.io.IOException;
import java.lang.invoke.*;
import java.lang.reflect.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.*;
import javax.tools.ToolProvider;

/**
 * A subclass of Seat for methods whose parameters or results differ between versions of Forge, so that no Java source
 * overrides them everywhere: its source is written and compiled for the Forge at hand, by `main`, after all others.
 */
public final class Bridge {
    private static final String NAME = "BridgedSeat";
    /**
     * The questions: names ("|": or, "?": not every version asks it), the answer, and what has to be among the arguments.
     * Null is whatever `Bridged` can make of it.
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
    private static final Map<Method, MethodHandle> INHERITED = new ConcurrentHashMap<>();
    private static Constructor<?> make;

    static Seat seat(Game game, Player player, Table.SeatPlayer lobby, Table table, int number) {
        try {
            return (Seat) make.newInstance(game, player, lobby, table, number);
        } catch (ReflectiveOperationException failed) {
            throw new IllegalStateException(failed);
        }
    }

    static Object call(Seat seat, int index, Object[] arguments) {
        return new Bridged(seat).answer(METHODS.get(index), arguments);
    }

    /** What Forge's AI does where such a method was called. */
    static Object inherited(Seat seat, Method method, Object[] arguments) {
        try {
            return INHERITED.computeIfAbsent(method, Bridge::find).bindTo(seat).invokeWithArguments(arguments);
        } catch (Throwable problem) {
            throw Reflect.unchecked(problem);
        }
    }

    private static MethodHandle find(Method method) {
        try {
            return MethodHandles.privateLookupIn(Seat.class, MethodHandles.lookup()).unreflectSpecial(method, Seat.class);
        } catch (IllegalAccessException hidden) {
            throw new IllegalStateException(hidden);
        }
    }

    /** Writes and compiles the class; the argument is the folder of the others. */
    public static void main(String[] arguments) throws IOException {
        find();
        StringBuilder text = new StringBuilder("package forgedaemon;\n\n@SuppressWarnings(\"all\")\nfinal class " + NAME
                + " extends Seat {\n    BridgedSeat(forge.game.Game game, forge.game.player.Player player, Table.SeatPlayer lobby,"
                + " Table table, int number) {\n        super(game, player, lobby, table, number);\n    }\n");
        for (int i = 0; i < METHODS.size(); i++) {
            text.append(method(METHODS.get(i), i));
        }
        String folder = arguments[0];
        Path file = Files.writeString(Path.of(folder, NAME + ".java"), text.append("}\n"));
        System.exit(ToolProvider.getSystemJavaCompiler().run(null, null, null, "-nowarn", "-proc:none", "-encoding", "UTF-8",
                "-d", folder, "-cp", System.getProperty("java.class.path"), file.toString()));
    }

    private static String method(Method method, int index) {
        Class<?>[] types = method.getParameterTypes();
        String parameters = IntStream.range(0, types.length).mapToObj(i -> types[i].getCanonicalName() + " p" + i)
                .collect(Collectors.joining(", "));
        String values = IntStream.range(0, types.length).mapToObj(i -> "p" + i).collect(Collectors.joining(", "));
        Class<?> result = method.getReturnType();
        String cast = "return (" + MethodType.methodType(result).wrap().returnType().getCanonicalName() + ") ";
        return "\n    public " + result.getCanonicalName() + " " + method.getName() + "(" + parameters + ") {\n        "
                + (result == void.class ? "" : cast) + "Bridge.call(this, " + index + ", new Object[] {" + values + "});\n    }\n";
    }

    /** Takes the class, and tells what this version of Forge asks in a way that is not understood. */
    static void prepare() {
        List<String> foreign = find();
        Class<?> made = Reflect.type("forgedaemon." + NAME);
        if (made == null) {
            throw new Refusal(NAME + " is missing: run forgedaemon.Bridge once, with the folder of the classes");
        }
        make = made.getDeclaredConstructors()[0];
        if (!foreign.isEmpty()) {
            System.err.println("asked otherwise by Forge " + Engine.version() + " and left to its AI: "
                    + String.join(", ", foreign));
        }
    }

    /** Fills METHODS; the names of what is not understood. */
    private static List<String> find() {
        List<String> foreign = new ArrayList<>();
        for (Object[] question : QUESTIONS) {
            String names = ((String) question[0]).replace("?", "");
            boolean needed = names.equals(question[0]);
            int before = METHODS.size();
            for (Method method : PlayerControllerAi.class.getDeclaredMethods()) {
                if (List.of(names.split("\\|")).contains(method.getName()) && Modifier.isPublic(method.getModifiers())
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
        METHODS.sort(Comparator.comparing(Method::toString));
        return foreign;
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
}
