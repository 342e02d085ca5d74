// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import forge.ai.*;
import forge.game.GameActionUtil;
import forge.game.GameObject;
import forge.game.ability.AbilityUtils;
import forge.game.ability.ApiType;
import forge.game.ability.effects.CharmEffect;
import forge.game.card.Card;
import forge.game.cost.*;
import forge.game.player.Player;
import forge.game.spellability.*;
import forge.game.zone.ZoneType;
import forge.util.MyRandom;
import forge.util.collect.FCollectionView;
import java.lang.reflect.Method;
import java.util.*;

/** Which actions a player can really take now, and how an action is carried out. */
final class Moves {
    private static final Method ADDITIONAL = Reflect.method(CostPayment.class, "canPayAdditionalCosts", 2, 3);
    static final Method FOR_FREE = Reflect.method(ComputerUtil.class, "playSpellAbilityForFree", 2);
    static final Method ROLLBACK = Reflect.method(GameActionUtil.class, "rollbackAbility", 5);
    private static final Method WILL_PAY = Reflect.method(ComputerUtilCost.class, "willPayUnlessCost", 5);
    private static final Method X_CAN_BE_0 = Reflect.method(CostPartMana.class, "canXbe0", 0);
    private static final Method LEAST_X = Reflect.method(CostPartMana.class, "getXMin", 0);
    /** The second argument of getAllCandidates: in 1.6 whether the ability targets (true), in 2.x whether only players are wanted (false). */
    private static final boolean TARGETED = Reflect.method(TargetRestrictions.class, "getAllCandidates", 3) != null;
    static final Method SPELL_OF = Reflect.method(SpellAbilityStackInstance.class, "getSpellAbility", 1, 0);
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

    /** Whether a cost can be paid by the rules, X being as small as it may be; Forge's AI would refuse some as bad moves. */
    static boolean canPay(SpellAbility ability, Player player) {
        return canPayMana(ability, player)
                && (Boolean) Reflect.fit(ADDITIONAL, null, ability.getPayCosts(), ability, false);
    }

    static boolean canPayMana(SpellAbility ability, Player player) {
        Random real = MyRandom.getRandom();
        SCRATCH.setSeed(7);
        Engine.setRandom(SCRATCH);
        try {
            return ((Seat) player.getController()).paying.tries(() -> ComputerUtilMana.canPayManaCost(ability, player, 0, false));
        } finally {
            Engine.setRandom(real);
        }
    }

    /** The same, without asking the engine where a purse knows. */
    static boolean canPay(SpellAbility ability, Player player, Purse purse) {
        Boolean known = purse == null ? null : purse.suffices(ability);
        return known == null ? canPay(ability, player) : known;
    }

    static boolean hasTargets(SpellAbility ability) {
        if (ability.getApi() == ApiType.Charm) {
            List<AbilitySub> modes = CharmEffect.makePossibleOptions(ability);
            int least = ability.hasParam("CanRepeatModes") ? Math.min(1, Modes.least(ability)) : Modes.least(ability);
            return !modes.isEmpty() && feasible(ability, modes).size() >= least;
        }
        for (SpellAbility part = ability; part != null; part = part.getSubAbility()) {
            if (part.usesTargeting() && options(part).size() < part.getMinTargets()) {
                return false;
            }
        }
        return true;
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
        for (GameObject candidate : restrictions.getAllCandidates(ability, TARGETED)) {
            if (!ability.getTargets().contains(candidate)
                    && !(stack && candidate instanceof Card card && card.isInZone(ZoneType.Stack))) {
                result.add(candidate);
            }
        }
        if (stack) {
            for (SpellAbilityStackInstance item : ability.getActivatingPlayer().getGame().getStack()) {
                SpellAbility spell = (SpellAbility) Reflect.fit(SPELL_OF, item, false);
                if (ability.canTargetSpellAbility(spell) && !ability.getTargets().contains(spell)) {
                    result.add(spell);
                }
            }
        }
        return result;
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
