// SPDX-License-Identifier: GPL-3.0-or-later
package forgedaemon;

import com.google.common.collect.Lists;
import forge.game.Game;
import forge.game.GameActionUtil;
import forge.game.ability.AbilityUtils;
import forge.game.ability.ApiType;
import forge.game.ability.effects.CharmEffect;
import forge.game.card.Card;
import forge.game.cost.Cost;
import forge.game.cost.CostPayment;
import forge.game.player.Player;
import forge.game.spellability.OptionalCostValue;
import forge.game.spellability.SpellAbility;
import forge.game.zone.MagicStack;
import forge.game.zone.Zone;
import forge.game.zone.ZoneType;
import forge.util.collect.FCollectionView;
import java.lang.reflect.Method;
import java.util.*;
import java.util.function.*;

/** Plays an ability for a client: how it is paid for, X and the like, modes, targets, and the way back if it fails. */
record Casting(Seat seat) {
    /** freezeStack(), later freezeStack(ability). */
    private static final Method FREEZE = Reflect.method(MagicStack.class, "freezeStack", 0, 1);
    private static final Method KICKED = Reflect.method(Card.class, "getKickerMagnitude", 0);

    private boolean canPay(SpellAbility ability) {
        return Moves.canPay(ability, seat.getPlayer());
    }

    /** Announces, chooses targets and pays; whatever fails before the stack is touched leaves no trace. */
    boolean play(SpellAbility original) {
        original.setActivatingPlayer(seat.getPlayer());
        SpellAbility ability = withCosts(original);
        if (ability == null || !announce(ability)) {
            return false;
        }
        boolean charm = ability.getApi() == ApiType.Charm && !ability.isWrapper();
        try {
            if (!(charm ? seat.modes.choose(ability) : ability.setupTargets()) || !canPay(ability)) {
                return undone(ability);
            }
            return carryOut(ability, charm ? seat.modes::chooseTargets : part -> { }) || undone(ability);
        } finally {
            seat.modes.forget();
        }
    }

    /** What Forge's AI does to play an ability, but the seat chooses with what it pays, and there is a way back. */
    private boolean carryOut(SpellAbility chosen, Consumer<SpellAbility> targets) {
        Game game = seat.getGame();
        Card card = chosen.getHostCard();
        Zone from = card.getZone();
        int position = from == null ? -1 : from.getCards().indexOf(card);
        Reflect.fit(FREEZE, game.getStack(), chosen);
        card.setSplitStateToPlayAbility(chosen);
        SpellAbility ability = onStack(chosen, true);
        if (!ability.isCopied()) {
            ability.resetPaidHash();
            Reflect.tell(ability, "setPaidLife", 0);
        }
        ability = GameActionUtil.addExtraKeywordCost(ability);
        CostPayment payment = new CostPayment(ability.getPayCosts(), ability);
        if (ability.getApi() != ApiType.Charm || CharmEffect.makeChoices(ability)) {
            targets.accept(ability);
            if (KICKED != null) {
                Reflect.tell(ability.getHostCard(), "setKickerMagnitude", Reflect.call(KICKED, card));
            }
            if (ability.isTargetNumberValid() && seat.paying.pay(payment, false)) {
                game.getStack().addAndUnfreeze(ability);
                return true;
            }
        }
        System.err.println("could not be played after all: " + Priority.key(ability));
        putBack(ability, card, from, position, payment);
        return false;
    }

    private SpellAbility onStack(SpellAbility ability, boolean splice) {
        Card card = ability.getHostCard();
        if (!ability.isSpell() || card.isCopiedSpell()) {
            return ability;
        }
        SpellAbility result = splice ? AbilityUtils.addSpliceEffects(ability) : ability;
        if (result != ability) {
            result.setActivatingPlayer(seat.getPlayer());
            SpellAbility last = result;
            for (SpellAbility part = ability.getSubAbility(); part != null; part = part.getSubAbility()) {
                last = last.getSubAbility();
            }
            seat.modes.chooseTargets(last); // of what was spliced
        }
        result.setHostCard(seat.getGame().getAction().moveToStack(card, result));
        return result;
    }

    /** What Forge's AI does with an ability that does not use the stack; false if it cannot be paid for. */
    boolean resolve(SpellAbility original) {
        original.setActivatingPlayer(seat.getPlayer());
        if (!canPay(original)) {
            return false;
        }
        SpellAbility ability = GameActionUtil.addExtraKeywordCost(onStack(original, false));
        if (ability.getPayCosts() != null && !seat.paying.pay(new CostPayment(ability.getPayCosts(), ability), true)) {
            return false;
        }
        AbilityUtils.resolve(ability);
        return true;
    }

    /** Puts a trigger on the stack, whose targets are chosen. */
    void stack(SpellAbility original) {
        original.setActivatingPlayer(seat.getPlayer());
        if (canPay(original)) {
            SpellAbility ability = GameActionUtil.addExtraKeywordCost(original);
            if (ability.getPayCosts() == null || seat.paying.pay(new CostPayment(ability.getPayCosts(), ability), false)) {
                seat.getGame().getStack().add(ability);
            }
        }
    }

    private static boolean undone(SpellAbility ability) {
        for (SpellAbility part = ability; part != null; part = part.getSubAbility()) {
            part.clearTargets();
        }
        ability.setXManaCostPaid(null);
        return false;
    }

    /** What Forge does when a human cancels a spell that already lies on the stack. */
    private void putBack(SpellAbility ability, Card card, Zone from, int position, CostPayment payment) {
        Game game = seat.getGame();
        Card now = game.getCardState(card);
        boolean moved = from != null && now.isInZone(ZoneType.Stack);
        if (Moves.ROLLBACK != null) {
            Reflect.call(Moves.ROLLBACK, null, ability, moved ? from : null, position, payment, card);
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
        payment.refundPayment();
        game.getStack().clearFrozen();
        game.getTriggerHandler().clearWaitingTriggers();
    }

    // ---- costs

    /** Alternative additional costs ("discard a card or pay 3"), then optional ones (kicker). */
    private SpellAbility withCosts(SpellAbility original) {
        List<SpellAbility> variants = new ArrayList<>(GameActionUtil.getAdditionalCostSpell(original));
        if (variants.size() > 1) {
            variants.removeIf(variant -> !canPay(variant));
        }
        SpellAbility chosen = seat.questions.ability(original, "Choose how to pay", variants,
                variant -> variant.getPayCosts().toString(), () -> seat.guess(variants.get(0)));
        if (chosen == null) {
            return null;
        }
        List<OptionalCostValue> costs = GameActionUtil.getOptionalCostValues(chosen);
        return costs.isEmpty() ? chosen : GameActionUtil.addOptionalCosts(chosen, seat.chooseOptionalCosts(chosen, costs));
    }

    /** One after the other: what can be paid depends on what was chosen. */
    List<OptionalCostValue> optional(SpellAbility chosen, List<OptionalCostValue> values,
            Function<List<OptionalCostValue>, List<OptionalCostValue>> ai) {
        if (seat.quiet()) {
            return ai.apply(values);
        }
        List<OptionalCostValue> result = new ArrayList<>();
        Cost soFar = chosen.getPayCosts().copy();
        for (OptionalCostValue value : values) {
            Cost full = value.getCost().copy().add(soFar);
            SpellAbility dearer = chosen.copyWithDefinedCost(full);
            dearer.setActivatingPlayer(seat.getPlayer());
            if (canPay(dearer) && seat.questions.confirm(chosen, "Pay " + value,
                    () -> ai.apply(Lists.newArrayList(value)).contains(value))) {
                result.add(value);
                soFar = full;
            }
        }
        return result;
    }

    /** How often a keyword's cost is paid. */
    int times(SpellAbility ability, Cost cost, String prompt, int max, Supplier<Integer> ai) {
        if (seat.quiet()) {
            return ai.get();
        }
        Cost total = ability.getPayCosts().copy();
        int most = 0;
        while (most < max && most < 20) {
            total.add(cost);
            SpellAbility dearer = ability.copyWithDefinedCost(total.copy());
            dearer.setActivatingPlayer(seat.getPlayer());
            if (!canPay(dearer)) {
                break;
            }
            most++;
        }
        return most == 0 ? 0 : seat.questions.number(ability, prompt, 0, most, ai);
    }

    /** "Counter it unless its controller pays 3", asked only when it can be paid. */
    boolean payToPrevent(Cost cost, SpellAbility ability, boolean paid, FCollectionView<Player> payers) {
        Player player = seat.getPlayer();
        Payment payment = new Payment(ability.getHostCard(), cost, player, ability);
        return canPay(payment)
                && seat.questions.confirm(ability, "Pay " + cost, () -> Moves.willPay(player, ability, cost, paid, payers))
                && resolve(payment);
    }

    /** "As long as you pay 2": costs of attacking, echo and the like. */
    boolean payOptional(Card card, Cost cost, SpellAbility cause, String prompt) {
        Payment payment = new Payment(card, cost, card.getController(), cause);
        String message = prompt == null ? "Pay " + cost : prompt;
        boolean paid = Moves.canPay(payment, card.getController())
                && seat.questions.confirm(cause, message, () -> seat.guess(true)) && resolve(payment);
        if (paid) {
            Reflect.tell(cause, "setPayingMana", payment.getPayingMana()); // Balduvian Fallen wants to know
        }
        return paid;
    }

    /** Cards of the hand that are spliced onto a spell, as long as all can be paid for. */
    List<Card> splice(SpellAbility spell, List<Card> cards, Supplier<List<Card>> ai) {
        List<Card> hint = seat.remote ? null : seat.think(ai);
        List<Card> result = new ArrayList<>();
        for (Card card : cards) {
            SpellAbility longer = spell.copy();
            result.forEach(other -> AbilityUtils.addSpliceEffect(longer, other));
            AbilityUtils.addSpliceEffect(longer, card);
            longer.setActivatingPlayer(seat.getPlayer());
            if (canPay(longer) && Moves.hasTargets(longer) && seat.questions.confirm(spell, "Splice " + seat.view.name(card),
                    () -> (hint == null ? seat.think(ai) : hint).contains(card))) {
                result.add(card);
            }
        }
        return hint == null ? result : hint;
    }

    // ---- X and the like, as in Forge's own dialog for humans

    private boolean announce(SpellAbility ability) {
        Card card = ability.getHostCard();
        boolean needX = true;
        for (String word : ability.hasParam("Announce") ? ability.getParam("Announce").split(",") : new String[0]) {
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
        if (!needX) {
            return true;
        }
        Cost cost = ability.getPayCosts();
        if (cost == null || !cost.hasXInAnyCostPart()) {
            ability.setXManaCostPaid(null);
        } else if (Purse.xIsAnnounced(ability)) {
            Integer value = announced(ability, "X");
            if (value == null) {
                return false;
            }
            ability.setXManaCostPaid(value);
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
    Integer announced(SpellAbility ability, String name) {
        Cost cost = ability.getPayCosts();
        boolean x = name.equals("X");
        boolean zero = !(x && (ability.hasParam("XCantBe0") || cost != null && cost.hasManaCost() && !Moves.xCanBe0(cost)));
        int least = zero ? 0 : 1;
        int most = x ? seat.think(() -> Moves.greatestX(ability, seat.getPlayer(), least, seat.table.facts))
                : greatest(ability, name);
        if (most >= least && ability.usesTargeting() && name.equals(ability.getTargetRestrictions().getMinTargets())) {
            most = Math.min(most, Moves.options(ability).size());
        }
        return most < least ? null : (Integer) seat.questions.number(ability, name, least, most, () -> seat.guess(least));
    }

    private int greatest(SpellAbility ability, String name) {
        if (!name.equals("Multikicker") && !name.equals("Pseudo-multikicker")) {
            return 10;
        }
        Card card = ability.getHostCard();
        int greatest = 0;
        for (int times = 1; times <= 20; times++) {
            setAnnounced(ability, card, name, times);
            if (!canPay(ability)) {
                break;
            }
            greatest = times;
        }
        setAnnounced(ability, card, name, 0);
        return greatest;
    }

    /** A cost that is paid for its own sake; nothing resolves. */
    static final class Payment extends SpellAbility {
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
}
