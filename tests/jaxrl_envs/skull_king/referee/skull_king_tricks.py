"""Single tricks, ranks and returns of Skull King in plain Python; every function follows one table of the rules."""

from __future__ import annotations

from dataclasses import dataclass

CARD_ROSIE, CARD_BENDT, CARD_ROATAN, CARD_JADE, CARD_HARRY = 61, 62, 63, 64, 65
TIGRESS, SKULL_KING, KRAKEN, WHALE = 66, 67, 70, 71
MERMAIDS = (68, 69)
LOOTS = (72, 73)
TRUMP = 3


@dataclass(frozen=True)
class Play:
    """One card on the table."""

    seat: int
    card: int
    as_pirate: bool = False  # only for the Tigress

    @property
    def suit(self) -> int | None:
        """0..3, or None for a special card."""
        return self.card // 14 if self.card < 56 else None

    @property
    def number(self) -> int:
        """1..14 of a suit card."""
        return self.card % 14 + 1

    @property
    def pirate_like(self) -> bool:
        """A Pirate, or the Tigress declared pirate."""
        return CARD_ROSIE <= self.card <= CARD_HARRY or (self.card == TIGRESS and self.as_pirate)

    @property
    def beast(self) -> bool:
        """Kraken or White Whale."""
        return self.card in (KRAKEN, WHALE)

    @property
    def frees_trick(self) -> bool:
        """Led, this card lets everybody play anything: characters and beasts."""
        return self.pirate_like or self.card == SKULL_KING or self.card in MERMAIDS or self.beast


def suit_to_follow(plays: list[Play]) -> int | None:
    """The suit that must be followed by the next card of this trick, or None."""
    if not plays or plays[0].frees_trick:
        return None
    suits = [play.suit for play in plays if play.suit is not None]
    return suits[0] if suits else None


def winner_without_beasts(plays: list[Play]) -> Play | None:
    """Lines 4 to 10 of the winning table, on cards without beasts; None only for no cards at all."""
    mermaids = [play for play in plays if play.card in MERMAIDS]
    king = [play for play in plays if play.card == SKULL_KING]
    pirates = [play for play in plays if play.pirate_like]
    suited = [play for play in plays if play.suit is not None]
    trumps = [play for play in suited if play.suit == TRUMP]
    if king and mermaids:
        return mermaids[0]
    if king:
        return king[0]
    if pirates:
        return pirates[0]
    if mermaids:
        return mermaids[0]
    if trumps:
        return max(trumps, key=lambda play: play.number)
    if suited:
        return max((play for play in suited if play.suit == suited[0].suit), key=lambda play: play.number)
    return plays[0] if plays else None


def winning_play(plays: list[Play]) -> Play | None:
    """The play that wins this trick as it lies, None if it is VOID (or empty)."""
    beasts = [play for play in plays if play.beast]
    if not beasts:
        return winner_without_beasts(plays)
    if beasts[-1].card == KRAKEN:
        return None
    suited = [play for play in plays if play.suit is not None]
    return max(suited, key=lambda play: play.number) if suited else None  # max keeps the earliest of equals


def next_leader(plays: list[Play]) -> int:
    """The seat that leads after this trick, before any Rosie decision."""
    winner = winning_play(plays) or winner_without_beasts([play for play in plays if not play.beast])
    return winner.seat if winner else plays[0].seat


def captured(plays: list[Play]) -> int:
    """The capture points of the winner of this trick, 0 if it is VOID."""
    winner = winning_play(plays)
    if winner is None:
        return 0
    points = 0
    for play in plays:
        if play.suit is not None and play.number == 14:
            points += 20 if play.suit == TRUMP else 10
        if winner.pirate_like and play.card in MERMAIDS:
            points += 20
        if winner.card == SKULL_KING and play.pirate_like:
            points += 30
        if winner.card in MERMAIDS and play.card == SKULL_KING:
            points += 40
    return points


def alliances(plays: list[Play]) -> list[tuple[int, int]]:
    """(Loot player, winner) for each Loot that another player's card collected."""
    winner = winning_play(plays)
    if winner is None:
        return []
    return [(play.seat, winner.seat) for play in plays if play.card in LOOTS and play.seat != winner.seat]


def legal_cards(hand: list[int], plays: list[Play]) -> list[int]:
    """The cards of this hand that may be played next to the trick."""
    suit = suit_to_follow(plays)
    if suit is None or not any(card < 56 and card // 14 == suit for card in hand):
        return sorted(hand)
    return sorted(card for card in hand if card >= 56 or card // 14 == suit)


def competition_rank(points: list[int]) -> list[int]:
    """1 + number of seats with strictly more points."""
    return [1 + sum(other > own for other in points) for own in points]


def returns(kind: str, points: list[int]) -> list[float]:
    """The final returns of section 9: points, margin, rank or win."""
    n = len(points)
    if kind == "points":
        return [own / 100 for own in points]
    if kind == "margin":
        return [(own - (sum(points) - own) / (n - 1)) / 100 for own in points]
    if kind == "rank":
        places = [[1 + sum(o > own for o in points) + i for i in range(points.count(own))] for own in points]
        return [1 - 2 * (sum(p) / len(p) - 1) / (n - 1) for p in places]
    best = max(points)
    return [(own == best) / points.count(best) for own in points]
