// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.ai.AiCostDecision;
import forge.ai.PlayerControllerAi;
import forge.card.ColorSet;
import forge.card.mana.ManaCost;
import forge.game.Game;
import forge.game.card.*;
import forge.game.cost.*;
import forge.game.player.Player;
import forge.game.player.PlayerController;
import forge.game.replacement.ReplacementEffect;
import forge.game.spellability.SpellAbility;
import forge.game.spellability.TargetChoices;
import forge.game.zone.ZoneType;
import java.io.IOException;
import java.lang.invoke.MethodType;
import java.lang.reflect.*;
import java.nio.file.*;
import java.util.*;
import java.util.regex.Pattern;
import java.util.stream.*;
import javax.tools.ToolProvider;

/**
 * Writes the overrides that no Java source of ours can have, because their parameters differ between versions of Forge, or
 * because nobody knows them yet: `main` finds them in the Forge at hand and compiles them, after all other classes.
 */
public final class Bridge {
    private static final String NAME = "Written";
    /**
     * The questions: names ("|": or, "?": not every version asks it), the answer, and what has to be among the arguments.
     * Null is whatever `Bridged` can make of it.
     */
    private static final Object[][] QUESTIONS = {
        {"reveal", Void.class, Iterable.class, ZoneType.class, String.class},
        {"announceRequirements", Integer.class, SpellAbility.class, String.class},
        {"assignCombatDamage", Map.class, Card.class, CardCollectionView.class, Integer.class, Boolean.class},
        {"chooseCardName", String.class, SpellAbility.class, String.class},
        {"chooseCardsForConvokeOrImprovise", Map.class, SpellAbility.class, ManaCost.class, CardCollectionView.class},
        {"chooseCardsForSplice", List.class, SpellAbility.class, List.class},
        {"chooseCardsToDelve", CardCollection.class, Integer.class, CardCollection.class},
        {"chooseCardsToDiscardFrom", CardCollection.class, SpellAbility.class, CardCollectionView.class, Integer.class},
        {"chooseCardsToDiscardUnlessType", CardCollection.class, Integer.class, CardCollectionView.class, SpellAbility.class},
        {"chooseColor", null, String.class, SpellAbility.class, ColorSet.class},
        {"chooseColorAllowColorless", null, String.class, ColorSet.class},
        {"chooseColors", null, SpellAbility.class, Integer.class},
        {"chooseDungeon", Card.class, Player.class, List.class},
        {"chooseFlipResult", Boolean.class, SpellAbility.class, Boolean.class},
        {"chooseKeywordForPump|chooseSector|?chooseRollToIgnore|?chooseRollToModify|?chooseRollModifyEffect|?chooseRollIncrement"
            + "|?chooseSingleStaticAbility", Object.class, List.class},
        {"chooseNewTargetsFor", TargetChoices.class, SpellAbility.class, Boolean.class},
        {"chooseProtectionType", String.class, SpellAbility.class, List.class},
        {"chooseSaToActivateFromOpeningHand", List.class, List.class},
        {"chooseSingleReplacementEffect", ReplacementEffect.class, List.class},
        {"chooseSomeType", String.class, String.class, SpellAbility.class, Collection.class, Boolean.class},
        {"confirmAction", Boolean.class, SpellAbility.class, String.class},
        {"confirmBidAction", Boolean.class, SpellAbility.class, String.class, Integer.class},
        {"confirmStaticApplication", Boolean.class, String.class},
        {"divideShield", Map.class, Card.class, Map.class, Integer.class},
        {"?enlistAttackers", List.class, List.class},
        {"londonMulliganReturnCards|tuckCardsViaMulligan", CardCollection.class, Integer.class},
        {"?orderAttackers|?orderBlockers", CardCollection.class, Card.class, CardCollectionView.class},
        {"?orderBlocker", CardCollection.class, Card.class, CardCollectionView.class},
        {"payManaOptional|payCombatCost", Boolean.class, Card.class, Cost.class, SpellAbility.class},
        {"?playSpellAbilityForFree", Void.class, SpellAbility.class, Boolean.class},
        {"playTrigger", Boolean.class, SpellAbility.class},
        {"specifyManaCombo", Map.class, SpellAbility.class, ColorSet.class, Integer.class, Boolean.class},
        {"vote", Object.class, SpellAbility.class, String.class, List.class},
    };
    private static final Set<String> ASKED =
            Arrays.stream(PlayerController.class.getDeclaredMethods()).map(Method::getName).collect(Collectors.toSet());
    /** Methods of a controller that choose nothing in a game of two. */
    private static final Pattern NO_CHOICE = Pattern.compile("(is|get|can|reveal|await|cancel|auto|reset|tempShow|endTempShow)[A-Z].*|"
            + "sideboard|chooseCardsYouWonToAddToDeck|complainCardsCantPlayWell|cheatShuffle|addKeywordCost|notifyOfValue");
    /** Parts of costs that leave no choice, or whose choices come as questions of their own. */
    private static final Set<String> FIXED_COSTS = Set.of("PartMana", "Tap", "Untap", "PayLife", "PayEnergy", "PayShards", "AddMana",
            "Damage", "Draw", "Mill", "FlipCoin", "RollDice", "GainLife", "RevealChosenPlayer", "ChooseColor", "ChooseCreatureType");

    /** What the written class makes. */
    interface Maker {
        Seat seat(Game game, Player player, Table.SeatPlayer lobby, Table table, Seat master);

        Costs costs(Seat seat, SpellAbility ability, boolean effect);

        /** Names of questions that this version of Forge asks otherwise than we know. */
        String foreign();
    }

    static Maker make;

    /** Takes the written class, and tells what is left to Forge's AI for not being understood. */
    static void prepare() {
        try {
            make = (Maker) Class.forName("forgedaemon." + NAME).getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException missing) {
            throw new Refusal(NAME + " is missing: run forgedaemon.Bridge once, with the folder of the classes");
        }
        if (!make.foreign().isEmpty()) {
            System.err.println("asked otherwise by Forge " + Engine.version() + " and left to its AI: " + make.foreign());
        }
    }

    /** Writes and compiles the class; the argument is the folder of the others. */
    public static void main(String[] arguments) throws IOException {
        Path file = Files.writeString(Path.of(arguments[0], NAME + ".java"), source());
        System.exit(ToolProvider.getSystemJavaCompiler().run(null, null, null, "-nowarn", "-proc:none", "-encoding", "UTF-8",
                "-d", arguments[0], "-cp", System.getProperty("java.class.path"), file.toString()));
    }

    private static String source() {
        StringBuilder seat = new StringBuilder();
        Set<String> foreign = new TreeSet<>();
        for (Method method : PlayerControllerAi.class.getMethods()) {
            if (isOpen(method, Seat.class) && ASKED.contains(method.getName())) {
                Object[] question = question(method.getName());
                boolean understood = question != null && understood(method, question);
                if (understood) {
                    seat.append(override(method, (method.getReturnType() == void.class ? "" : "(" + boxed(method) + ") ")
                            + "new Bridged(this, " + method.getReturnType().getCanonicalName() + ".class).answer(\"" + method.getName() + "\", new Object[] {" + values(method) + "}, () -> %s)"));
                } else if (method.getReturnType() != void.class && !NO_CHOICE.matcher(method.getName()).matches()) {
                    seat.append(override(method, "left(\"" + kind(method.getName()) + "\", () -> %s)"));
                }
                if (question != null && !understood) {
                    foreign.add(method.getName());
                }
            }
        }
        StringBuilder costs = new StringBuilder();
        for (Method method : AiCostDecision.class.getMethods()) {
            String part = method.getParameterCount() == 1 ? method.getParameterTypes()[0].getSimpleName().substring(4) : "";
            if (method.getName().equals("visit") && isOpen(method, Costs.class) && !FIXED_COSTS.contains(part)) {
                costs.append(override(method, "seat.left(\"cost" + kind(part) + "\", () -> %s)"));
            }
        }
        return TEXT.formatted(NAME, String.join(", ", foreign), seat, costs);
    }

    private static final String TEXT = """
            package forgedaemon;

            import forge.game.Game;
            import forge.game.player.Player;
            import forge.game.spellability.SpellAbility;

            @SuppressWarnings("all")
            final class %s implements Bridge.Maker {
                public Seat seat(Game game, Player player, Table.SeatPlayer lobby, Table table, Seat master) {
                    return new WrittenSeat(game, player, lobby, table, master);
                }

                public Costs costs(Seat seat, SpellAbility ability, boolean effect) {
                    return new WrittenCosts(seat, ability, effect);
                }

                public String foreign() {
                    return "%s";
                }
            }

            final class WrittenSeat extends Seat {
                WrittenSeat(Game game, Player player, Table.SeatPlayer lobby, Table table, Seat master) {
                    super(game, player, lobby, table, master);
                }
            %s}

            final class WrittenCosts extends Costs {
                WrittenCosts(Seat seat, SpellAbility ability, boolean effect) {
                    super(seat, ability, effect);
                }
            %s}
            """;

    /** Whether a method can be overridden, and is not yet by one of our classes. */
    private static boolean isOpen(Method method, Class<?> ours) {
        int modifiers = method.getModifiers();
        return !Modifier.isFinal(modifiers) && !Modifier.isStatic(modifiers) && !method.isBridge()
                && Arrays.stream(ours.getDeclaredMethods()).noneMatch(other -> other.getName().equals(method.getName())
                && Arrays.equals(other.getParameterTypes(), method.getParameterTypes()));
    }

    private static Object[] question(String name) {
        return Arrays.stream(QUESTIONS).filter(question -> List.of(((String) question[0]).replace("?", "").split("\\|"))
                .contains(name)).findFirst().orElse(null);
    }

    private static String override(Method method, String body) {
        Class<?>[] types = method.getParameterTypes();
        String parameters = IntStream.range(0, types.length).mapToObj(i -> types[i].getCanonicalName() + " p" + i)
                .collect(Collectors.joining(", "));
        boolean nothing = method.getReturnType() == void.class;
        String inherited = "super." + method.getName() + "(" + values(method) + ")";
        return "\n    public " + method.getReturnType().getCanonicalName() + " " + method.getName() + "(" + parameters + ") {\n"
                + "        " + (nothing ? "" : "return ") + body.formatted(nothing ? "{ " + inherited + "; return null; }" : inherited)
                + ";\n    }\n";
    }

    /** What a method chooses, in words. */
    private static String kind(String name) {
        return name.matches("payManaCost|chooseManaFromPool") ? "payment" : name.replaceAll("([A-Z])", " $1").toLowerCase();
    }

    private static String values(Method method) {
        return IntStream.range(0, method.getParameterCount()).mapToObj(i -> "p" + i).collect(Collectors.joining(", "));
    }

    private static String boxed(Method method) {
        return MethodType.methodType(method.getReturnType()).wrap().returnType().getCanonicalName();
    }

    private static boolean understood(Method method, Object[] question) {
        MethodType type = MethodType.methodType(method.getReturnType(), method.getParameterTypes()).wrap();
        List<Class<?>> parameters = type.parameterList();
        for (int i = 2; i < question.length; i++) {
            Class<?> wanted = (Class<?>) question[i];
            if (parameters.stream().noneMatch(wanted::isAssignableFrom)) {
                return false;
            }
        }
        Class<?> answer = type.returnType();
        return answer == Void.class || question[1] == Object.class
                || (question[1] != null ? answer.isAssignableFrom((Class<?>) question[1])
                : answer == Byte.class || answer == List.class || answer.isEnum() || answer == ColorSet.class);
    }
}
