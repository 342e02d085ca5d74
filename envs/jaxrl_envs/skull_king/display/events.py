"""Text of one step of Skull King, in sentences for people, as one seat could see it.

A step settles what it completes: the trick, the round. The next position no longer shows that, so it is told here.
"""

from __future__ import annotations

from jaxrl_envs.contract.env import PartScores, State
from jaxrl_envs.shared.display.seats import conjugated, does, who, whom
from jaxrl_envs.skull_king import cards as c
from jaxrl_envs.skull_king import rules
from jaxrl_envs.skull_king.display.position import field, reason, trick_order, trick_with
from jaxrl_envs.skull_king.trick import resolve


def describe(env, before: State, action: int, after: State, seat: int | None = None) -> str:
    """Returns the step as sentences.

    Args:
      env: the `SkullKing` of the states.
      before, after: the states around the step, one game.
      action: action of ``before.current_player``.
      seat: the reader, called "you"; None is told everything. Bids are secret until all are made, and what others
        discard stays secret.
    """
    old: rules.SkullKingGame = before.game
    new: rules.SkullKingGame = after.game
    phase, actor = int(old.phase), int(old.actor)
    if bool(after.illegal_action):
        return f"{does(actor, seat, 'choose')} an illegal action: the game is over."
    if phase == rules.BID:
        return _bid(env, old, new, action, seat)
    if phase == rules.PLAY:
        said = _play(env, old, new, action, seat)
    elif phase == rules.BENDT:
        known = seat in (None, actor)
        card = c.card_name(action - rules.FIRST_PLAY) if known else "a card face down"
        said = [f"{does(actor, seat, 'discard')} {card}."]
    elif phase == rules.ROSIE:
        leader = (actor + action - rules.FIRST_ROSIE) % env.num_players
        said = [f"{does(actor, seat, 'name')} {whom(leader, seat)} to lead."]
    elif phase == rules.ROATAN:
        said = [f"{does(actor, seat, 'wager')} {10 * (action - rules.FIRST_ROATAN)}."]
    else:
        bid = field(old.round.bids, actor) + action - rules.FIRST_HARRY - 1
        verb = "keep" if action == rules.FIRST_HARRY + 1 else "change"
        said = [f"{does(actor, seat, verb)} the bid {'of' if verb == 'keep' else 'to'} {bid}."]
    gained = [f"{points:+d}" if points else "0" for points in _gained(old, new)]  # in a round that ended
    return " ".join([*said, *([f"Points of round {int(old.number)}: {_each(gained, seat)}."] if gained else [])])


def promise(env, state: State, action: int) -> str:
    """Returns what a bid or a wager earns or costs, and the seat that an action names."""
    game: rules.SkullKingGame = state.game
    phase, actor = int(game.phase), int(game.actor)
    if phase == rules.ROSIE:
        return whom((actor + action - rules.FIRST_ROSIE) % env.num_players, actor)
    if phase == rules.ROATAN:
        return f"±{10 * (action - rules.FIRST_ROATAN)}"
    change = action - rules.FIRST_HARRY - 1
    bid = action if phase == rules.BID else field(game.round.bids, actor) + change if phase == rules.HARRY else None
    if bid is None:
        return ""
    if bid == 0:
        return f"±{10 * int(rules.cards_dealt(game.number, env.setup))}"
    return f"+{20 * bid} if exact"


def _bid(env, old: rules.SkullKingGame, new: rules.SkullKingGame, action: int, seat: int | None) -> str:
    actor = int(old.actor)
    if seat in (None, actor):
        said = f"{does(actor, seat, 'bid')} {action}."
    else:
        said = f"Seat {actor} has bid."
    if int(new.phase) == rules.BID:
        return said
    bids = [str(field(new.round.bids, number)) for number in range(env.num_players)]
    return f"{said} All bids: {_each(bids, seat)}."


def _play(env, old: rules.SkullKingGame, new: rules.SkullKingGame, action: int, seat: int | None) -> list[str]:
    """Returns the play, and what follows if it completes the trick, but for the points of a round."""
    actor, played = int(old.actor), env.action_name(action)
    play, trick = trick_with(old, action)
    if play == c.TIGRESS:
        played = "Tigress (escape)"
    plays = f"{does(actor, seat, 'play')} {played}"
    if int(trick.size) < env.num_players:
        return [f"{plays}."]
    outcome = resolve(trick, old.round.leader)
    winner, bonus = int(outcome.winner), 10 * int(outcome.bonus)
    why = reason([*trick_order(old, env.num_players), (actor, play)], winner if winner >= 0 else None)
    if winner < 0:
        leads = int(outcome.next_leader)
        last = int(old.round.tricks) + 1 == int(rules.cards_dealt(old.number, env.setup))
        next_lead = "" if last else f"; {whom(leads, seat)} {conjugated(leads, seat, 'lead')} next"
        return [f"{plays}.", f"The trick is void, {why}{next_lead}."]
    gain = f" (+{bonus})" if bonus else ""
    wins = f"{conjugated(winner, seat, 'win')} the trick{gain}: {why}."
    said = [f"{plays} and {wins}"] if winner == actor else [f"{plays}.", f"{who(winner, seat)} {wins}"]
    for looter in map(int, trick.loots):
        if looter >= 0 and looter != winner:
            said.append(f"{who(looter, seat)} and {whom(winner, seat)} are allied by Loot.")
    return said + _ability(old, new, int(outcome.pirate), winner, seat)


def _ability(
    old: rules.SkullKingGame, new: rules.SkullKingGame, pirate: int, winner: int, seat: int | None
) -> list[str]:
    """Returns the immediate effect of a winning Pirate; decisions are told when they are made."""
    drawn = int(new.round.bendt_drawn) - int(old.round.bendt_drawn)
    if pirate == c.BENDT and int(new.phase) == rules.BENDT:
        return [f"{does(winner, seat, 'draw')} {drawn} card{'s' * (drawn != 1)} from the stock."]
    if pirate == c.JADE and int(new.round.jade) == winner and int(old.round.jade) != winner:
        return [f"{does(winner, seat, 'see')} the stock."]
    if pirate == c.HARRY and int(new.round.harry) == winner:
        return [f"{who(winner, seat)} may change the bid at the end of the round."]
    return []


def _each(words: list[str], seat: int | None) -> str:
    """Something of every seat: "seat 0 (2), you (1)"."""
    return ", ".join(f"{whom(number, seat)} ({word})" for number, word in enumerate(words))


def _gained(old: rules.SkullKingGame, new: rules.SkullKingGame) -> list[int]:
    """Returns the points of each seat in the round that a step has ended; empty if it has ended none."""
    if int(new.number) == int(old.number) and int(new.phase) != rules.END:
        return []
    return [int(after) - int(before) for after, before in zip(new.scores, old.scores, strict=True)]


def round_scores(before: State, action: int, after: State) -> PartScores | None:
    """Returns points, bid and tricks of each seat in the round that a step has ended."""
    old: rules.SkullKingGame = before.game
    gained = [] if bool(after.illegal_action) else _gained(old, after.game)
    if not gained:
        return None
    actor, phase = int(old.actor), int(old.phase)
    bids, won = ([field(word, seat) for seat in range(len(gained))] for word in (old.round.bids, old.round.won))
    if phase == rules.HARRY:
        bids[actor] += action - rules.FIRST_HARRY - 1
    elif phase == rules.PLAY:
        winner = int(resolve(trick_with(old, action)[1], old.round.leader).winner)
        if winner >= 0:
            won[winner] += 1
    notes = tuple(f"bid {bid}, won {tricks}" for bid, tricks in zip(bids, won, strict=True))
    return PartScores(f"round {int(old.number)}", tuple(gained), notes)
