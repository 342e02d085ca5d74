"""Games of Magic behind the host contract: whatever happens to daemons, a game is its seed and its actions."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from jaxrl_envs.forge import layout as at
from jaxrl_envs.forge.engine.games import INFO_NAMES, STAT_NAMES, ForgeEngine, look
from jaxrl_envs.forge.engine.live_game import Terms
from jaxrl_envs.forge.engine.state import ENDS
from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, EngineError, IllegalAction, make_buffers
from jaxrl_envs.shared.errors import UserError
from tests.support.forge.fake import Fault, line_of
from tests.support.forge.play import faking, row_of, trace
from tests.support.pools import begun
from tests.support.waiting import wait_until

PROFILES = ("", "Cautious")


def scripted(count=1, faults=None, **options):
    """A fleet of daemons whose games depend on every answer; faults: kinds by (game, decision)."""
    return faking(count=count, faults=[Fault(kind, *place) for place, kind in (faults or {}).items()], **options)


def engine_on(fleet, games=1, seed=1, **options):
    options = {"decision_timeout": 0.4, "profiles": PROFILES, "max_decisions": 300} | options
    terms = Terms(**{key: options.pop(key) for key in Terms._fields if key in options})
    return ForgeEngine(fleet, games, terms, seed=seed, **options)


def without_faults(games=1, steps=60, length=12, **options):
    with scripted(games, length=length) as fleet:
        return trace(engine_on(fleet, games, **options), steps)


def info_of(step, name):
    return step[7][INFO_NAMES.index(name)]


# ---- play -----------------------------------------------------------------------------------------------------------


def test_games_are_played_to_their_results():
    with scripted() as fleet:
        played = [row[0] for row in trace(engine_on(fleet), 150)]
        assert fleet.fakes[0].unusable == [] and fleet.mischief.games == len(fleet.finished) + 1 >= 4
        assert fleet.failures == [] and fleet.replays == 0
    ends = [step for step in played if step[5]]
    episodes = [info_of(step, "episode") for step in ends]  # one without questions is passed over
    assert len(ends) > 3 and [ENDS[info_of(step, "end")] for step in ends] == [fleet.finished[i] for i in episodes]
    for step in ends:
        rewards = np.frombuffer(step[4], np.float32)
        stats = dict(zip(STAT_NAMES, np.reshape(step[8], (2, -1)).T, strict=True))
        assert rewards[0] == -rewards[1] == stats["won"][0] - stats["won"][1]
        assert stats["decisions"].sum() > 0 and stats["turns"][0] == info_of(step, "turn")


def test_the_seed_decides_and_nothing_else():
    one = without_faults(3, 40)
    assert one == without_faults(3, 40) and one != without_faults(3, 40, seed=2)
    with scripted(3) as fleet:
        assert one == trace(engine_on(fleet, 3), 40, threads=3)
    with scripted(1) as fleet:
        alone = trace(engine_on(fleet, 1, first_slot=2), 40)
    assert [row[2] for row in one] == [row[0] for row in alone]


def test_what_a_daemon_is_told():
    pairs = (("a", "b"), ("with blank", 'q"x'))
    with scripted() as fleet:
        trace(engine_on(fleet, pairs=pairs, options="-i -q", game_limit=30.5), 60)
        first, second = fleet.fakes[0].commands[:2]
    assert first.startswith("NEWGAME a b -i -q -c 31 -s ") and second.startswith('NEWGAME "with blank" "q\\"x" -i -q')
    seeds = [int(command.split()[-1]) for command in fleet.fakes[0].commands]
    assert len(set(seeds)) == len(seeds) and all(0 < seed < 2**63 for seed in seeds)


def test_illegal_actions_are_refused():
    with scripted() as fleet, begun(engine_on(fleet)) as (pool, out, act):
        while out.legal_action_mask[0].all():  # a number of a wide range
            act(np.zeros(1, np.int32))
        illegal = [action for action in range(at.NUM_ACTIONS) if not out.legal_action_mask[0, action]]
        for action in (illegal[0], at.NUM_ACTIONS + len(PROFILES), 10**6):
            with pytest.raises(IllegalAction):
                pool.send(np.array([action], np.int32), out)


def test_forges_ai_takes_a_seat_over():
    with scripted() as fleet:
        engine = engine_on(fleet)
        played = trace(engine, 40, controllers=[[-1, 2]])
        answers = fleet.fakes[0].answers
        games = fleet.mischief.games
    assert games // 2 < answers.count("ai! Cautious") <= games and all(row[0][0] == 0 for row in played)
    with scripted() as fleet, begun(engine_on(fleet)) as (_, out, act):
        act([at.NUM_ACTIONS])  # the player himself leaves his seat
        assert fleet.fakes[0].answers.count("ai!") == 1


def test_a_refused_answer_is_left_to_forge():
    def strict(daemon, wanted):
        line = line_of({"decision_type": "confirm_action", "decision_id": 1, "seat": 0, "game_state": {"turn": 1}})
        yield line
        yield b"ERROR: not that\n" + line
        return b"GAME_RESULT: Agent(2)-x won in 3ms\n"

    with faking(strict) as fleet:
        played = [row[0] for row in trace(engine_on(fleet), 1)]
        first, second = fleet.fakes[0].answers[:2]
    assert first in "yn" and second == "ai"
    assert info_of(played[1], "refused_answers") == 1 and np.frombuffer(played[1][4], np.float32)[1] == 1.0


# ---- faults; others are in test_faults.py ---------------------------------------------------------------------------


def test_newgame_without_an_answer_is_a_fault_of_its_own():
    with scripted(1, {(1, 0): "silent", (2, 0): "close"}) as fleet:
        assert trace(engine_on(fleet), 10) == without_faults(steps=10)
        assert fleet.failures == ["no start", "closed"]


def test_games_that_are_too_long_are_cut():
    with scripted() as fleet:
        engine = engine_on(fleet, max_decisions=5)
        played = [row[0] for row in trace(engine, 10)]
        assert fleet.finished == ["cut"] * 2 and [step[6] for step in played[1:]] == ([False] * 4 + [True]) * 2
        assert len(fleet.held) == 1  # the third game's; those that were cut have given theirs back


# ---- saved games ----------------------------------------------------------------------------------------------------


def test_every_position_continues_in_another_engine():
    clean = without_faults(2, 30)
    with scripted(2) as fleet, begun(engine_on(fleet, 2)) as (pool, out, act):
        for step in range(30):
            states, lengths = pool.save(), pool.length.copy()
            with scripted(2) as other, HostPool(engine_on(other, 2, seed=99)) as second:
                again = make_buffers(second.engine, 2)
                second.load(states, np.full((2, 2), -1), again, length=lengths)
                assert np.array_equal(again.observation, out.observation)
                assert np.array_equal(again.legal_action_mask, out.legal_action_mask)
                assert np.array_equal(second.save(), states)
                second.send(np.full(2, RANDOM, np.int32), again)
                second.recv()
                assert [row_of(again, game) for game in range(2)] == clean[step + 1]
                assert other.fakes[0].unusable == []
            act(np.full(2, RANDOM, np.int32))


def test_states_of_one_engine_find_their_games_again():
    """A state that is left and taken up again costs no replay as long as there are daemons."""
    with scripted(3) as fleet, begun(engine_on(fleet)) as (pool, out, act):
        states, rows = {}, {}
        for slot in range(3):
            pool.start(out)
            states[slot], rows[slot] = pool.save(), row_of(out, 0)[:3]
        for turn in range(4):
            for slot in range(3):
                pool.load(states[slot], [[-1, -1]], out)
                assert row_of(out, 0)[:3] == rows[slot], (turn, slot)
                act(np.full(1, RANDOM, np.int32))
                states[slot], rows[slot] = pool.save(), row_of(out, 0)[:3]
        assert fleet.replays <= 2  # a pool that starts the next game drops the one before


def test_a_finished_game_is_shown_again():
    """What was seen last is played again for its own sake: the final observation of a saved state."""
    from jaxrl_envs.host.pure import observe_states, step_states  # whole states in, whole states out

    with scripted(2) as fleet:
        engine = engine_on(fleet)
        with begun(engine) as (pool, out, act):
            while not out.terminated[0]:
                state, player = pool.save(), int(out.current_player[0])
                act(np.full(1, RANDOM, np.int32))
        second = engine_on(fleet)
        blob = np.empty_like(state)
        outputs = (
            *(blob, np.empty(1, np.int32), np.empty((1, at.FEATURES), np.float32), np.empty((1, at.NUM_ACTIONS), bool)),
            *(np.empty((1, 2), np.float32), np.empty(1, bool), np.empty(1, bool)),
            *(np.empty((1, 2, len(STAT_NAMES)), np.float32), np.empty((1, len(INFO_NAMES)), np.int32)),
        )
        step_states(second, state, out.action, np.zeros((1, 2), np.uint32), outputs)
        assert outputs[5][0] and outputs[1][0] == player and outputs[3].all()
        assert np.array_equal(outputs[2], out.final_observation)
        third, shown = engine_on(fleet), np.empty((1, at.FEATURES), np.float32)
        observe_states(third, blob, np.array([player], np.int32), shown)
        assert np.array_equal(shown, out.final_observation)
        fleet.fakes[0].close(), fleet.fakes[1].close()


def test_states_of_other_games_are_refused():
    with scripted() as fleet:
        with begun(engine_on(fleet, mark=7)) as (pool, _, _):
            states = pool.save()
        for engine, data in ((engine_on(fleet, mark=8), states), (engine_on(fleet, mark=7), np.zeros_like(states))):
            with HostPool(engine) as pool, pytest.raises(EngineError, match="damaged, or belongs to other decks"):
                pool.load(data, [[-1, -1]], make_buffers(engine, 1))


def test_a_damaged_history_is_found_out():
    with scripted() as fleet:
        with begun(engine_on(fleet)) as (pool, out, act):
            for _ in range(6):
                act(np.full(1, RANDOM, np.int32))
            states = pool.save()
        states[0, -2 * 300 : -2 * 300 + 2] = 255  # the first action
        with HostPool(engine_on(fleet)) as pool, pytest.raises(EngineError, match="differently than before"):
            pool.load(states, [[-1, -1]], make_buffers(pool.engine, 1))


# ---- rewards --------------------------------------------------------------------------------------------------------


def test_shaping_pays_the_same_in_sum():
    plain, shaped = without_faults(1, 120), without_faults(1, 120, shaping=(0.5, 0.25, 1.0))
    sums, different = [[0.0, 0.0], [0.0, 0.0]], 0
    for one, other in zip(plain[1:], shaped[1:], strict=True):
        assert one[0][:4] == other[0][:4]
        rewards = [np.frombuffer(each[0][4], np.float32) for each in (one, other)]
        different += not np.array_equal(*rewards)
        for k in range(2):
            sums[k] = [sums[k][0] + float(rewards[k][0]), sums[k][1] + float(rewards[k][1])]
        if one[0][5]:
            # A game's opening belongs to no step: what is left is what the first position was worth.
            assert abs(sums[0][0] - sums[1][0]) < 8.0 and abs(sums[1][0] + sums[1][1]) < 1e-5
            sums = [[0.0, 0.0], [0.0, 0.0]]
    assert different > 20


# ---- the rest -------------------------------------------------------------------------------------------------------


def test_a_dropped_engine_gives_its_daemons_back():
    with scripted(2) as fleet:
        fleet.start()
        # else one game may have to give way to the other
        assert wait_until(lambda: all(each.free for each in fleet.daemons))
        engine = engine_on(fleet, 2)
        with begun(engine) as opened:
            pass
        assert len(fleet.held) == 2
        del engine, opened
        gc.collect()
        assert not fleet.held
        engine = engine_on(fleet, 2)
        with begun(engine):
            engine.close()
            assert not fleet.held


def test_conversations_are_recorded(tmp_path):
    with scripted(2, {(1, 5): "close"}) as fleet:
        engine = engine_on(fleet, recorder=recording.Folder(tmp_path))
        assert trace(engine, 60) == without_faults()
        del engine
        gc.collect()
    games = [game for path in recording.find([tmp_path]) for game in recording.read(path)]
    whole = [game for game in games if game.complete]
    assert len(whole) == len(fleet.finished) and len(games) == len(whole) + 2  # one broke off, one is not over
    for game in whole:
        assert game.lines[0].startswith(b"> NEWGAME aggro aggro -i -q -a -c ")
        assert str(game.meta["seed"]) == game.lines[0].decode().split()[-1]
        assert (
            sum(line.startswith(b"< DECISION:") for line in game.lines)
            == sum(line[:2] == b"> " for line in game.lines) - 1
        )
    shown = [each for path in recording.find([tmp_path]) for each in ForgeGame().demonstrations(path)]
    assert len(shown) == len(games) and sum(np.isnan(each.result[0]) for each in shown) == 2
    assert all((each.mask[np.arange(len(each.action)), each.action]).all() for each in shown)
    assert sum(len(each.action) for each in shown) >= 60


def test_recordings_name_who_sits_where_also_when_a_game_is_played_again(tmp_path):
    """The players in the seats are asked for as a game begins, and not again when its daemon fails."""
    holders = iter([["learner", "random"], ["learner", "snapshot 3"], *[["no one"] * 2] * 99])
    with scripted(faults={(1, 3): "close"}) as fleet:
        engine = engine_on(fleet, recorder=recording.Folder(tmp_path))
        engine.seated = lambda number: next(holders)
        trace(engine, 60)
        del engine
        gc.collect()
    games = [game for path in recording.find([tmp_path]) for game in recording.read(path)]
    assert [game.meta["players"][1] for game in games[:3]] == ["random", "random", "snapshot 3"]


def test_games_with_advice_are_recorded_apart(tmp_path):
    game = ForgeGame()
    with scripted(2) as fleet:
        advised = game.advised(tmp_path / "round")
        trace(advised.engine_on(fleet, 2), 30)
        gc.collect()
    games = [each for path in recording.find([tmp_path / "round"]) for each in recording.read(path)]
    assert games and all(b" -i -q -a -v -c " in each.lines[0] for each in games)
    assert game.options == "-i -q -a" and ForgeGame(advice=True).options == advised.options


def test_people_see_a_saved_game():
    with scripted(2) as fleet:
        game = ForgeGame(decks=("aggro", "tokens"))
        engine = game.engine_on(fleet, 1, 5)
        with begun(engine) as (pool, out, act):
            before = pool.save()[0]
            act(np.full(1, RANDOM, np.int32))
            after = pool.save()[0]
        game._viewer = engine
        seat = look(engine, before)[0].progress.asked
        mine, other = game.render(before, seat), game.render(before, 1 - seat)
        assert f"seat {seat} decides" in mine and f"seat {seat} decides" in other
        assert mine.count("  hand: ") == 1 and other.count("  hand: ") <= 1 <= game.render(before).count("  hand: ")
        assert "  hand: " not in other.partition("\nyou ")[0]
        for told in (seat, 1 - seat, None):
            assert game.event(before, int(out.action[0]), after, told)
        assert game.event(before, 97, after, seat).startswith(f"Seat {seat} is played by Forge's AI")
        fleet.fakes[0].close(), fleet.fakes[1].close()
        again = game.engine_on(None, 1)  # it need not be played: it is remembered
        assert look(again, before)[1] == look(engine, before)[1]


# ---- the game -------------------------------------------------------------------------------------------------------


def test_pairs_of_decks():
    assert ForgeGame(decks=("aggro",)).pairs == (("aggro", "aggro"),)
    assert ForgeGame(decks=("aggro", "walkers")).pairs == (("aggro", "walkers"),)
    assert ForgeGame(decks=("a", "b"), pairings="all").varieties == 4
    assert ForgeGame(decks=("a", "b", "c"), pairings="mirror").pairs == (("a", "a"), ("b", "b"), ("c", "c"))
    assert ForgeGame(ask_mulligans=True, always_ask=True, first=1).options == "-i -q -m -f 1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decks": ()}, "must name at least one deck"),
        ({"decks": ("a", "b", "c")}, "give one for both seats"),
        ({"decks": ("./nowhere/x.dck",)}, "there is no deck ./nowhere/x.dck"),
        ({"max_decisions": 0}, "max_decisions must be"),
        ({"game_limit": 0.0}, "game_limit must be"),
        ({"shaping_life": -1.0}, "must be 0 to 10"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(UserError, match=message):
        ForgeGame(**options)
