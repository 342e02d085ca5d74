// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.ai.AiCostDecision;
import forge.ai.PlayerControllerAi;
import forge.card.ColorSet;
import forge.card.mana.ManaCost;
import forge.game.Game;
import forge.game.card.*;
import forge.game.cost.*;
import forge.game.player.*;
import forge.game.replacement.ReplacementEffect;
import forge.game.spellability.SpellAbility;
import forge.game.spellability.TargetChoices;
import forge.game.zone.ZoneType;
import forge.util.collect.FCollectionView;
import java.io.IOException;
import java.lang.invoke.MethodType;
import java.lang.reflect.*;
import java.nio.file.*;
import java.util.*;
import java.util.regex.Pattern;
import java.util.stream.*;
import javax.tools.ToolProvider;
import org.apache.commons.lang3.tuple.ImmutablePair;

/**
 * Writes the overrides that no Java source of ours can have, because their parameters differ between versions of Forge, or
 * because they are not known yet: `main` finds them in the Forge at hand and compiles them, after all other classes.
 */
public final class Bridge {
    private static final String NAME = "Written";
    /** Questions for one thing of a list. */
    static final String ONE_OF = "vote|chooseCounterType|chooseKeywordForPump|chooseProtectionType|chooseSector"
            + "|chooseSingleReplacementEffect|chooseSingleSpellForEffect|getAbilityToPlay|?chooseRollToIgnore"
            + "|?chooseRollToModify|?chooseRollModifyEffect|?chooseRollIncrement|?chooseSingleStaticAbility";
    /**
     * The questions: names ("|": or, "?": not every version asks it), the answer, and what has to be among the arguments.
     * Null is whatever `Bridged` can make of it.
     */
    private static final Object[][] QUESTIONS = {
        {"reveal", Void.class, Iterable.class, ZoneType.class, String.class},
        {"announceRequirements", Integer.class, SpellAbility.class, String.class},
        {"arrangeForScry|arrangeForSurveil", ImmutablePair.class, CardCollection.class},
        {"assignCombatDamage", Map.class, Card.class, CardCollectionView.class, Integer.class, Boolean.class},
        {"chooseBinary", Boolean.class, SpellAbility.class, String.class, PlayerController.BinaryChoiceType.class},
        {"chooseCardName", String.class, SpellAbility.class, String.class},
        {"chooseCardsForConvokeOrImprovise", Map.class, SpellAbility.class, ManaCost.class, CardCollectionView.class},
        {"chooseCardsForEffect", CardCollection.class, CardCollectionView.class, SpellAbility.class, Integer.class, Boolean.class},
        {"chooseCardsForEffectMultiple", CardCollection.class, Map.class, SpellAbility.class, String.class, Boolean.class},
        {"chooseCardsForSplice", List.class, SpellAbility.class, List.class},
        {"chooseCardsForZoneChange", List.class, SpellAbility.class, CardCollection.class, Integer.class, DelayedReveal.class},
        {"chooseCardsPile", Boolean.class, SpellAbility.class, CardCollectionView.class, String.class},
        {"chooseCardsToDelve|chooseCardsToRevealFromHand", CardCollection.class, Integer.class, CardCollectionView.class},
        {"chooseCardsToDiscardFrom", CardCollection.class, SpellAbility.class, CardCollectionView.class, Integer.class},
        {"chooseCardsToDiscardToMaximumHandSize", CardCollection.class, Integer.class},
        {"chooseCardsToDiscardUnlessType", CardCollection.class, Integer.class, CardCollectionView.class, SpellAbility.class},
        {"chooseColor", null, String.class, SpellAbility.class, ColorSet.class},
        {"chooseColorAllowColorless", null, String.class, ColorSet.class},
        {"chooseColors", null, SpellAbility.class, Integer.class},
        {"chooseDungeon", Card.class, Player.class, List.class},
        {"chooseEntitiesForEffect", List.class, FCollectionView.class, SpellAbility.class, String.class, Integer.class},
        {"chooseFlipResult", Boolean.class, SpellAbility.class, Boolean.class},
        {"chooseNewTargetsFor", TargetChoices.class, SpellAbility.class, Boolean.class},
        {"chooseNumber", Integer.class, SpellAbility.class, String.class},
        {"chooseNumberForKeywordCost", Integer.class, SpellAbility.class, Cost.class, String.class, Integer.class},
        {"choosePermanentsToSacrifice|choosePermanentsToDestroy", CardCollection.class, SpellAbility.class, Integer.class,
            CardCollectionView.class, String.class},
        {"chooseSaToActivateFromOpeningHand", List.class, List.class},
        {"chooseSingleCardForZoneChange", Card.class, SpellAbility.class, CardCollection.class, Boolean.class},
        {"chooseSingleEntityForEffect", Object.class, FCollectionView.class, SpellAbility.class, String.class, Boolean.class},
        {"chooseSomeType", String.class, String.class, SpellAbility.class, Collection.class, Boolean.class},
        {"chooseSpellAbilitiesForEffect", List.class, List.class, SpellAbility.class, Integer.class},
        {"confirmAction", Boolean.class, SpellAbility.class, String.class},
        {"confirmBidAction", Boolean.class, SpellAbility.class, String.class, Integer.class},
        {"confirmReplacementEffect", Boolean.class, ReplacementEffect.class, String.class},
        {"confirmStaticApplication", Boolean.class, String.class},
        {"divideShield", Map.class, Card.class, Map.class, Integer.class},
        {"?enlistAttackers|exertAttackers", List.class, List.class},
        {"londonMulliganReturnCards|tuckCardsViaMulligan", CardCollection.class, Integer.class},
        {"?orderAttackers|?orderBlockers|?orderBlocker", CardCollection.class, Card.class, CardCollectionView.class},
        {"orderMoveToZoneList", CardCollection.class, CardCollectionView.class, ZoneType.class},
        {"payManaOptional|payCombatCost", Boolean.class, Card.class, Cost.class, SpellAbility.class},
        {"?playSpellAbilityForFree", Void.class, SpellAbility.class, Boolean.class},
        {"playTrigger", Boolean.class, SpellAbility.class},
        {"specifyManaCombo", Map.class, SpellAbility.class, ColorSet.class, Integer.class, Boolean.class},
        {"willPutCardOnTop", Boolean.class, Card.class},
        {ONE_OF, Object.class, List.class},
    };
    private static final Set<String> ASKED =
            Arrays.stream(PlayerController.class.getDeclaredMethods()).map(Method::getName).collect(Collectors.toSet());
    /** Methods of a controller that choose nothing in a game of two. */
    private static final Pattern NO_CHOICE = Pattern.compile("(is|get|can)[A-Z].*|sideboard|chooseCardsYouWonToAddToDeck"
            + "|complainCardsCantPlayWell|cheatShuffle|addKeywordCost");
    /** Parts of costs that leave no choice, or whose choices come as questions of their own. */
    private static final Set<String> FIXED_COSTS = Set.of("PartMana", "Tap", "Untap", "PayLife", "PayEnergy", "PayShards",
            "AddMana", "Damage", "Draw", "Mill", "FlipCoin", "RollDice", "GainLife", "RevealChosenPlayer", "RevealChosen",
            "ChooseColor", "ChooseCreatureType");
    /** Parts that any permanents of the payer pay. */
    private static final Set<String> OWN_COSTS = Set.of("Exert", "GainControl", "Return");

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
                    seat.append(override(method, "%sBridged(this, %s.class).answer(\"%s\", new Object[] {%s}, () -> %%s)".formatted(
                            method.getReturnType() == void.class ? "new " : "(" + boxed(method) + ") new ",
                            method.getReturnType().getCanonicalName(), method.getName(), values(method))));
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
                costs.append(override(method, OWN_COSTS.contains(part) ? "own(p0, () -> %s)"
                        : "seat.left(\"cost" + kind(part) + "\", () -> %s)"));
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
        return "\n    public %s %s(%s) {\n        %s;\n    }\n".formatted(method.getReturnType().getCanonicalName(),
                method.getName(), parameters, nothing ? body.formatted("{ " + inherited + "; return null; }")
                : "return " + body.formatted(inherited));
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
