"""Decks: read, compared with the cards of a Forge, and made by chance from them."""

from __future__ import annotations

import collections
import random
import zipfile
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl_envs.contract import registry
from jaxrl_envs.forge.deckbuilding import random_decks
from jaxrl_envs.forge.deckbuilding.deck import check_decks, expanded, find_deck, read_deck
from jaxrl_envs.forge.deckbuilding.pool import BASICS, PoolCard, card_of
from jaxrl_envs.forge.deckbuilding.scripts import Scripts
from jaxrl_envs.forge.fleet.find import DECKS
from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.shared.errors import UserError
from tests.support.forge.fake import fake_home

SPLIT = "Name:Fire\nManaCost:1 R\n\nALTERNATE\n\nName:Ice\nManaCost:1 U\n"


def scripts_in(folder: Path, *texts: str) -> Scripts:
    cards = folder / "cardsfolder" / "x"
    cards.mkdir(parents=True)
    for number, text in enumerate(texts):
        (cards / f"{'fire_ice' if text == SPLIT else number}.txt").write_text(text, encoding="utf-8")
    return Scripts(folder)


def test_names_are_known_as_forge_knows_them(tmp_path):
    scripts = scripts_in(tmp_path, SPLIT, "Name:Lim-Dul's Vault\n", "Name:Æther Vial\n")
    for name in ("Fire // Ice", "fire", "Ice", "Lim-Dûl's Vault", "Aether Vial"):
        assert scripts.knows(name), name
    assert not scripts.knows("Fir") and not scripts.knows("Fire // Fire") and len(scripts) == 3
    with zipfile.ZipFile(tmp_path / "cardsfolder" / "cardsfolder.zip", "w") as archive:
        archive.writestr("s/shock.txt", "Name:Shock\n")
    assert Scripts(tmp_path).knows("Shock") and not Scripts(tmp_path).knows("Ice")  # a release has an archive


def test_all_that_is_wrong_with_decks_is_one_sentence(tmp_path):
    scripts = scripts_in(tmp_path, SPLIT)
    texts = {
        "good": "[Main]\n4 Fire // Ice|APC|1\n2x Ice+\n# 3 Nothing\n[Sideboard]\n1 Other\n",
        "strange": "[metadata]\nName=1\n[main]\n4 Fire\n2 Shok|M10\nBlack Lotos\n",
        "leader": "[Commander]\n1 Niv-Mizzet\n[Main]\n99 Ice\n",
        "empty": "4 Ice\n",
    }
    paths = {name: tmp_path / f"{name}.dck" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name])
    assert read_deck(paths["good"]).cards == {"Fire // Ice": 4, "Ice": 2}
    check_decks([paths["good"]], scripts)
    check_decks([paths["strange"]], None)  # the cards of Forge are unknown
    with pytest.raises(UserError) as error:
        check_decks(paths.values(), scripts, "2.0")
    said = str(error.value)
    assert "strange.dck has cards that Forge 2.0 does not know: Shok, Black Lotos;" in said and "\n" not in said
    assert "leader.dck is a Commander deck (Niv-Mizzet)" in said and "empty.dck has no cards" in said
    assert "good.dck" not in said


def test_a_game_checks_its_decks_before_it_starts_anything(tmp_path):
    home = fake_home(tmp_path, card=True)
    (tmp_path / "own.dck").write_text("[Main]\n60 Moutain\n")
    with pytest.raises(UserError, match=r"own\.dck has cards that Forge \S+ does not know: Moutain\."):
        ForgeGame(decks=("aggro", f"{tmp_path}/*.dck")).deploy(Deployment(home=str(home)))
    ForgeGame(decks=("aggro", "tokens")).deploy(Deployment(home=str(home)))


def test_every_option_may_differ_between_a_run_and_what_goes_on_from_it():
    """None of them changes what is observed or what can be done: leave out an option that does."""
    assert set(ForgeGame.free_options) == set(registry.options_of("forge"))


def test_games_are_recorded_by_what_they_are_for(tmp_path):
    game = ForgeGame()
    assert game.meant_for("training") is game  # nothing is written
    game.deployment = Deployment(record=str(tmp_path))
    assert game.meant_for("training")._recorded_in == tmp_path / "training"
    assert game.advised(tmp_path / "round").meant_for("evaluation")._recorded_in == tmp_path / "round"


def test_where_decks_are_found(tmp_path):
    for name in "ba":
        (tmp_path / f"{name}.dck").write_text("[Main]\n60 Island\n")
    assert expanded(["aggro", f"{tmp_path}/*.dck"]) == ("aggro", f"{tmp_path}/a.dck", f"{tmp_path}/b.dck")
    assert find_deck("a", tmp_path) == find_deck(f"{tmp_path}/a", None) == tmp_path / "a.dck"
    assert find_deck("aggro", tmp_path) == DECKS / "aggro.dck"
    game = ForgeGame(decks=(f"{tmp_path}/none/*.dck",))
    game.deploy(Deployment(home=str(tmp_path)))  # as long as no game is played
    with pytest.raises(UserError, match="there is no deck .*none/.*jaxrl forge decks --random"):
        game.ready()
    pairs = ForgeGame(decks=("a", "b", "c"), pairings="all").pairs
    assert len(set(pairs)) == 9 and {deck for pair in pairs[:3] for deck in pair} == {"a", "b", "c"}
    assert [one == other for one, other in pairs] == [False] * 6 + [True] * 3


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("ManaCost:1 R\nTypes:Creature Goblin\nPT:2/1\nK:Haste", ("creature", 2, "R")),
        ("ManaCost:G\nTypes:Creature Elf\nPT:1/1\nA:AB$ Mana | Cost$ T | Produced$ G", ("ramp", 1, "G")),
        ("ManaCost:R\nTypes:Instant\nA:SP$ DealDamage | ValidTgts$ Creature,Player | NumDmg$ 3", ("removal", 1, "R")),
        ("ManaCost:R\nTypes:Instant\nA:SP$ DealDamage | ValidTgts$ Player | NumDmg$ 3", None),
        ("ManaCost:1 U U\nTypes:Instant\nA:SP$ Counter | TargetType$ Spell | ValidTgts$ Card", ("counter", 3, "UU")),
        ("ManaCost:2 U\nTypes:Sorcery\nA:SP$ Draw | NumCards$ 2 | SpellDescription$ Two.", ("draw", 3, "U")),
        (
            "ManaCost:1 W\nTypes:Enchantment Aura\nA:SP$ Attach | ValidTgts$ Creature | AILogic$ Curse",
            ("removal", 2, "W"),
        ),
        ("ManaCost:no cost\nTypes:Land\nA:AB$ Mana | Cost$ T | Produced$ Combo W R | X$ Y", ("land", 0, "WR")),
        ("ManaCost:no cost\nTypes:Basic Land Forest", None),
        ("ManaCost:X R\nTypes:Creature\nPT:1/1", None),
        ("ManaCost:R\nTypes:Creature\nPT:*/1", None),
        ("ManaCost:R\nTypes:Creature\nPT:9/9\nAI:RemoveDeck:All", None),
        ("ManaCost:R\nTypes:Creature\nPT:9/9\nAlternateMode:Flip", None),
    ],
)
def test_what_cards_are_for(script, expected):
    card = card_of(f"Name:It\n{script}\n")
    assert (card and card[1:4]) == expected and (card is None or card.name == "It")


def invented_pool(draw: random.Random) -> list[PoolCard]:
    """Cards of every use and colour, and lands of two."""
    uses = [("creature", cmc) for cmc in range(1, 8)] + [(role, 2) for role in ("removal", "draw", "trick", "counter")]
    uses += [("sweeper", 4), ("ramp", 2)]
    cards = [
        PoolCard(f"{role} {cmc}{color}{number}", role, cmc, color, draw.random())
        for role, cmc in uses
        for color in BASICS
        for number in range(15)
    ]
    lands = [
        PoolCard(f"{a}{b}", "land", 0, a + b)
        for a in BASICS
        for b in BASICS
        if list(BASICS).index(a) < list(BASICS).index(b)
    ]
    return cards + lands


def test_decks_by_chance_are_legal_and_of_their_kind():
    pool = invented_pool(random.Random(1))
    roles = {card.name: card for card in pool}
    decks = random_decks.make_decks(pool, 50, seed=4)
    assert decks == random_decks.make_decks(pool, 50, seed=4) != random_decks.make_decks(pool, 50, seed=5)
    assert len({deck.name for deck in decks}) == 50
    for deck in decks:
        spells = {name: number for name, number in deck.cards.items() if name not in BASICS.values()}
        assert sum(deck.cards.values()) == 60 and max(spells.values()) <= 4
        assert {color for name in spells for color in roles[name].pips} <= set(deck.colors)
        lands = sum(n for name, n in deck.cards.items() if name in BASICS.values() or roles[name].role == "land")
        archetype = random_decks.ARCHETYPES[deck.kind]
        assert lands == archetype.lands and all(deck.cards[BASICS[color]] >= 3 for color in deck.colors)
        uses = collections.Counter()
        for name, number in spells.items():
            uses[roles[name].role] += number
        assert all(uses[role] == number for role, number in archetype.uses.items())
        assert read_text(deck.text()) == deck.cards


def read_text(text: str) -> dict[str, int]:
    """What a deck file says, written again."""
    lines = text.split("[Main]\n")[1].splitlines()
    return {line.partition(" ")[2]: int(line.partition(" ")[0]) for line in lines}


def test_lands_follow_the_pips():
    found = random_decks._lands(random.Random(0), [], {"W": 30, "R": 10}, 20)
    assert found == {"Plains": 15, "Mountain": 5}
    assert random_decks._lands(random.Random(0), [], {"W": 40, "R": 1}, 20) == {"Plains": 17, "Mountain": 3}


def test_the_command(tmp_path, capsys):
    home = fake_home(tmp_path, card=True)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.dck").write_text("[Commander]\n1 X\n[Main]\n60 Moutain\n")
    assert cli.main(["forge", "decks", f"forge.home={home}", f"forge.decks={tmp_path}/own"]) == 0
    said = capsys.readouterr().out
    assert "| aggro | jaxrl | 60 | 14 |  |" in said
    assert "| 60 | 1 | not known: Moutain; a Commander deck: not played |" in said
    assert cli.main(["forge", "decks", "--random", "3", f"forge.home={home}"]) == cli.USER_ERROR
    assert "needs a number and a folder" in capsys.readouterr().err
    assert cli.main(["forge", "decks", "--random", "3", "--out", str(tmp_path / "new"), f"forge.home={home}"]) == 2
    assert "there are too few" in capsys.readouterr().err  # its scripts tell names alone
    assert cli.main(["forge", "record", "home=x"]) == 2
    assert "settings are written forge.key=value" in capsys.readouterr().err
    assert cli.main(["forge", "record", "forge.daemon=2"]) == 2 and "daemons" in capsys.readouterr().err
