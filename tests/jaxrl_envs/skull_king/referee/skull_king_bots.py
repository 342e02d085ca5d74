"""The rule-based Skull King bots in plain Python: each takes a referee `Game` and three integers k in 0..999."""

from __future__ import annotations

from tests.jaxrl_envs.skull_king.referee.skull_king import (
    BENDT,
    BID,
    HARRY,
    PLAY,
    ROATAN,
    ROSIE,
    TIGRESS_AS_PIRATE,
    Game,
    play_of,
)
from tests.jaxrl_envs.skull_king.referee.skull_king_tricks import SKULL_KING, TIGRESS, Play, winning_play

Draw = tuple[int, int, int]

# Hard: worth in hundredths by number of players: plain 1..14, Roger 1..14, (King, Pirate, Tigress, Mermaid).
_TABLE = """
2  22 22 22 22 27 27 31 34 39 45 52 59 65 71  65 68 71 74 76 79 82 84 86 89 91 92 95 97  95 92 85 85
3  5 5 5 5 7 7 10 12 15 20 27 35 43 51  43 47 51 54 58 63 67 71 74 79 83 85 90 95  90 84 73 73
4  1 1 1 1 2 2 3 4 6 9 14 21 28 36  28 32 36 40 44 50 55 60 64 70 75 79 86 92  85 77 62 62
5  0 0 0 0 1 1 1 1 2 4 7 12 18 26  18 22 26 29 33 40 45 51 55 62 68 73 82 89  81 71 53 53
6  0 0 0 0 0 0 0 0 1 2 4 7 12 18  12 15 18 22 25 31 37 43 48 55 62 68 78 87  76 65 45 45
7  0 0 0 0 0 0 0 0 0 1 2 4 8 13  8 10 13 16 19 25 30 36 41 49 56 62 74 85  72 59 38 38
8  0 0 0 0 0 0 0 0 0 0 1 3 5 9  5 7 9 12 15 20 25 30 35 44 51 58 70 82  68 54 33 33
"""
HARD_WORTH = {
    numbers[0]: (tuple(numbers[1:15]), tuple(numbers[15:29]), tuple(numbers[29:]))
    for numbers in (list(map(int, line.split())) for line in _TABLE.split("\n") if line)
}


def _special(card: int, *, king: int, pirate: int, mermaid: int, tigress: int, whale=0, kraken=0, loot=0) -> int:
    if card == SKULL_KING:
        return king
    if 61 <= card <= 65:
        return pirate
    if card in (68, 69):
        return mermaid
    if card == TIGRESS:
        return tigress
    return {70: kraken, 71: whale, 72: loot, 73: loot}.get(card, 0)


def worth(card: int) -> int:
    """Easy and medium: what a card adds to the bid, in hundredths of a trick."""
    number = card % 14 + 1
    if card < 42:
        return 30 if number >= 12 else 15 if number >= 8 else 0
    if card < 56:
        return 70 if number >= 10 else 40 if number >= 6 else 20
    return _special(card, king=90, pirate=60, mermaid=40, tigress=35, whale=20, kraken=15, loot=5)


def strength(action: int) -> int:
    """Easy and medium: the order of playable cards."""
    card = TIGRESS if action == TIGRESS_AS_PIRATE else action - 11
    number = card % 14 + 1
    if card < 42:
        return 10 + 30 * number // 14
    if card < 56:
        return 40 + 40 * number // 14
    return _special(card, king=100, pirate=85, mermaid=75, tigress=55, whale=35, kraken=25, loot=5)


def hard_worth(card: int, n: int = 4) -> int:
    """Hard: the chance in hundredths that a card wins a trick at a table of n."""
    plain, roger, (king, pirate, tigress, mermaid) = HARD_WORTH[n]
    if card < 42:
        return plain[card % 14]
    if card < 56:
        return roger[card % 14]
    return _special(card, king=king, pirate=pirate, mermaid=mermaid, tigress=tigress)


def _clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def _need(game: Game) -> int:
    return game.bids[game.actor] - game.won[game.actor]


def _wins_now(game: Game, action: int) -> bool:
    play = play_of(game.actor, action)
    return winning_play([*game.table, play]) is play


def choose_random(game: Game, k: Draw) -> int:
    """A uniformly random legal action."""
    legal = game.legal()
    return legal[k[0] * len(legal) // 1000]


def choose_easy(game: Game, k: Draw) -> int:
    """The easy bot: ignores the table and loses its head now and then."""
    return _choose_simple(game, k, noise=100, easy=True)


def choose_medium(game: Game, k: Draw) -> int:
    """The medium bot: knows which of its cards would win now."""
    return _choose_simple(game, k, noise=50, easy=False)


def _choose_simple(game: Game, k: Draw, *, noise: int, easy: bool) -> int:
    seat, legal = game.actor, game.legal()
    if game.phase == BID:
        x = sum(worth(card) for card in game.hands[seat]) + k[0] * (2 * noise + 1) // 1000 - noise
        return _clamp((x + 50) // 100, 0, game.h)
    if game.phase == ROSIE:
        return 86
    if game.phase == ROATAN:
        return 95
    if game.phase == HARRY:
        change = game.won[seat] - game.bids[seat]
        return 98 + (change if abs(change) <= 1 else 0)
    need = _need(game)
    if game.phase == BENDT:
        if easy:
            return legal[0]
        return min(legal, key=lambda a: (strength(a) if need > 0 else -strength(a), a))
    return _play_simple(game, k, need, easy)


def _play_simple(game: Game, k: Draw, need: int, easy: bool) -> int:
    left = game.tricks_left
    mode = "LOSE" if need <= 0 else "WIN" if need >= left or need > left // 2 else "MID"
    if easy and k[1] < 300:
        mode = ("WIN", "LOSE", "MID")[3 * k[2] // 1000]
    dropped = TIGRESS + 11 if need > 0 else TIGRESS_AS_PIRATE
    choices = sorted((a for a in game.legal() if a != dropped), key=lambda a: (strength(a), a))
    if not easy and game.table:
        winning = [a for a in choices if _wins_now(game, a)]
        losing = [a for a in choices if a not in winning]
        if mode == "LOSE":
            return losing[-1] if losing else choices[0]
        if not winning:
            return choices[0]
        if mode == "WIN":
            return winning[-1]
    if mode == "WIN":
        return choices[-1]
    return choices[0] if mode == "LOSE" else choices[len(choices) // 2]


# ---- hard -----------------------------------------------------------------------------------------------------------


def _estimate(game: Game) -> int:
    return sum(hard_worth(card, game.n) for card in game.hands[game.actor])


def _cost(action: int) -> int:
    if action == TIGRESS_AS_PIRATE:
        return hard_worth(TIGRESS)
    return 60 if action == TIGRESS + 11 else hard_worth(action - 11)


def _danger(action: int) -> int:
    if action == TIGRESS_AS_PIRATE:
        return 80
    if action == TIGRESS + 11:
        return 1
    return 2 if action in (81, 82) else hard_worth(action - 11)


def hold_chance(game: Game, action: int) -> int:
    """Thousandths: the chance that this play still wins after every seat to come has played a random unseen card."""
    if not _wins_now(game, action):
        return 0
    own = play_of(game.actor, action)
    unseen = game.unseen(game.actor)
    beaten = 0
    for card in unseen:
        following = Play((game.actor + 1) % game.n, card, card == TIGRESS)
        beaten += winning_play([*game.table, own, following]) is not own
    chance = 1000
    for _ in range(game.n - 1 - len(game.table)):
        if unseen:
            chance = chance * (len(unseen) - beaten) // len(unseen)
    return chance


def _play_hard(game: Game) -> int:
    need = _need(game)
    chance = {action: hold_chance(game, action) for action in game.legal()}
    weak = [action for action in chance if chance[action] <= 100]
    if need > 0:
        if need >= game.tricks_left and max(chance.values()) > 0:
            return min(chance, key=lambda a: (-chance[a], _cost(a), a))
        safe = [action for action in chance if chance[action] >= 500]
        return min(safe or weak or chance, key=lambda a: (_cost(a), a))
    if weak:
        return min(weak, key=lambda a: (-_danger(a), a))
    if len(game.table) == game.n - 1:
        return min(chance, key=lambda a: (-_danger(a), a))
    return min(chance, key=lambda a: (chance[a], -_danger(a), a))


def choose_hard(game: Game, k: Draw = (0, 0, 0)) -> int:
    """The hard bot: counts the unseen cards that would beat each of its plays. It does not use k."""
    seat, estimate = game.actor, _estimate(game)
    if game.phase == BID:
        return _clamp((estimate + 35) // 100, 0, game.h)
    if game.phase == PLAY:
        return _play_hard(game)
    if game.phase == ROSIE:
        return 87
    if game.phase == HARRY:
        return 98 + _clamp(game.won[seat] - game.bids[seat], -1, 1)
    need = _need(game)
    if game.phase == ROATAN:
        distance = abs(estimate - 100 * need)
        return 96 if distance <= 60 else 95 if distance <= 100 else 94
    too_strong = need <= 0 or estimate > 100 * need + 50
    return min(game.legal(), key=lambda a: (-_danger(a) if too_strong else _cost(a), a))


BOTS = {"random": choose_random, "easy": choose_easy, "medium": choose_medium, "hard": choose_hard}
