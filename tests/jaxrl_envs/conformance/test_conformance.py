"""The conformance suite: good games pass, and every broken promise is caught by the check of that name."""

from __future__ import annotations

import argparse
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap

from jaxrl.training.launching import command_check as check_command
from jaxrl.training.launching.command_check import parse_options
from jaxrl_envs import conformance
from jaxrl_envs.conformance import CHECKS, check, probe
from jaxrl_envs.contract.env import ClickArea, Env
from jaxrl_envs.contract.wrappers import AutoReset
from jaxrl_envs.shared.display import svg
from jaxrl_envs.shared.errors import UserError
from tests.support.games import STOCK, Corridor, HighCard, RockPaperScissors, TicTacToe


@pytest.mark.thorough
@pytest.mark.parametrize(
    "env",
    [TicTacToe(random_start=True), RockPaperScissors(num_players=3, no_repeat=True), Corridor(), HighCard()],
    ids=lambda env: env.id,
)
def test_good_games_pass(env):
    report = check(env, games=8)
    assert report.ok, str(report)
    assert [result.name for result in report.results] == list(CHECKS)
    assert "fulfils the contract" in str(report)


# ---- one broken game per check --------------------------------------------------------------------------------------

BROKEN: dict[str, type[Env]] = {}


def breaks(name):
    """The decorated game keeps every promise but the one that the check `name` tests."""

    def remember(game):
        BROKEN[name] = game
        return game

    return remember


@breaks("attributes")
class NoVersion(HighCard):
    version = 3


@breaks("shapes_and_dtypes")
class DriftingDtype(HighCard):
    def _step(self, state, action, key):
        state = super()._step(state, action, key)
        return state.replace(won=state.won.astype(jnp.int32))


@breaks("random_play_terminates")
class Endless(HighCard):
    def _step(self, state, action, key):
        return state


@breaks("seat_to_move")
class FourthSeat(HighCard):
    def _step(self, state, action, key):
        state = super()._step(state, action, key)
        return state.replace(current_player=state.current_player + state.terminated * 3)


@breaks("legal_action_exists")
class NoWayOut(HighCard):
    def _step(self, state, action, key):
        state = super()._step(state, action, key)
        return state.replace(legal_action_mask=state.legal_action_mask & ~jnp.any(state.won > 0))


@breaks("is_legal_agrees_with_mask")
class OwnIdeaOfLegal(HighCard):
    def is_legal(self, state, action):
        return super().is_legal(state, action) | (action == 11)


@breaks("illegal_action_loses")
class Forgiving(HighCard):
    def step(self, state, action, key):
        return super().step(state, jnp.where(self.is_legal(state, action), action, self.random_action(state, key)), key)


@breaks("mask_all_true_at_end")
class EmptyMaskAtEnd(HighCard):
    def step(self, state, action, key):
        state = super().step(state, action, key)
        return state.replace(legal_action_mask=state.legal_action_mask & ~state.terminated)


@breaks("absorbing_end")
class GoesOnAfterTheEnd(HighCard):
    def step(self, state, action, key):
        following = super().step(state, action, key)
        return following.replace(won=following.won + state.terminated.astype(jnp.int8))


@breaks("rewards")
class PaysAfterTheEnd(HighCard):
    def step(self, state, action, key):
        following = super().step(state, action, key)
        return following.replace(rewards=following.rewards + state.terminated)


@breaks("truncation")
class UndeclaredCut(Corridor):
    may_truncate = False


@breaks("episode_stats")
class StatsOfTheTable(HighCard):
    def episode_stats(self, state):
        return {"tricks": jnp.sum(state.won).astype(jnp.float32)}


class Counting(HighCard):
    """Keeps a Python counter, which a compiled program cannot see."""

    def __init__(self):
        super().__init__()
        self.calls = itertools.count()


@breaks("deterministic_by_key")
class CountsTraces(Counting):
    def _step(self, state, action, key):
        state = super()._step(state, action, key)
        return state.replace(rewards=state.rewards + next(self.calls))


@breaks("jit_equals_no_jit")
class KnowsWhenItIsTraced(HighCard):
    def _step(self, state, action, key):
        traced = isinstance(action, jax.core.Tracer)
        return super()._step(state, action, key).replace(won=state.won + jnp.int8(traced))


@custom_vmap
def _identity(x):
    return x


@_identity.def_vmap
def _leaking_batch(axis_size, in_batched, x):
    return jnp.roll(x, 1, axis=0), True


@breaks("vmap_equals_loop")
class LaneLeak(HighCard):
    def _step(self, state, action, key):
        state = super()._step(state, action, key)
        return state.replace(rewards=_identity(state.rewards))


@breaks("fresh_deals_at_init")
class OneDeal(HighCard):
    def _init(self, key):
        return super()._init(jax.random.key(7))


@breaks("fresh_deals_at_reset")
class SameDealAfterReset(HighCard):
    def reset(self, state, key):
        return self.init(jax.random.key(7))


@breaks("reset_starts_a_game")
class ResetsToTheEnd(HighCard):
    def reset(self, state, key):
        return self.init(key).replace(terminated=jnp.bool_(True))


@breaks("duplicate_deals")
class DealsByTrace(Counting):
    def init_deal(self, key):
        return self.init(key) if next(self.calls) % 2 else self.init(jax.random.fold_in(key, 1))


@breaks("observation_is_the_movers")
class WrongSeatsView(HighCard):
    def _with_observation(self, state):
        return state.replace(observation=self.observe(state, (state.current_player + 1) % 3))


@breaks("hidden_information")
class OpenHands(HighCard):
    def observe(self, state, seat):
        view = super().observe(state, seat)
        return view._replace(hand=view.hand | (state.owner == (seat + 1) % 3))


@breaks("privileged_view")
class TellsWhatIsKnown(HighCard):
    def privileged(self, state, seat):
        return state.owner == seat


@breaks("beliefs")
class BelievesTheTruth(HighCard):
    def reconcile(self, particle, actual, seat, key):
        return actual, jnp.bool_(True)


@breaks("card_beliefs")
class ForgetsTheStock(HighCard):
    def card_beliefs(self, observation):
        known = super().card_beliefs(observation)
        return known._replace(room=known.room.at[2].add(-1))


@breaks("features_are_finite")
class DividesByZero(HighCard):
    def features(self, observation):
        return super().features(observation) / jnp.sum(observation.hand)


@breaks("bots_are_legal")
class Cheat(HighCard):
    @property
    def bots(self):
        return {"random": self.random_action, "cheat": lambda state, key: jnp.int32(11)}


@breaks("bots_keep_to_what_they_see")
class LooksIntoTheStock(HighCard):
    @property
    def bots(self):
        def spy(state, key):
            return jnp.argmax(state.legal_action_mask * (1 + state.owner[::-1])).astype(jnp.int32)

        return {"random": self.random_action, "spy": spy}


@breaks("bot_switch_plays_as_the_bots")
class BotsInTheirOwnOrder(HighCard):
    def bot_switch(self, names):
        self._require_bots(names)
        return super().bot_switch([name for name in self.bots if name in names])


@breaks("rendering")
class NotAnSvg(HighCard):
    def render_svg(self, state, seat=None):
        return "<html></html>"


@breaks("rendering_keeps_secrets")
class OpenTable(HighCard):
    def render(self, state, seat=None):
        return " ".join(str(int(owner)) for owner in state.owner)


class Whispers(HighCard):
    def action_note(self, state, action):
        return str(int(state.owner[0]))


@breaks("clickable")
class ClicksTellOfTheStock(HighCard):
    def render_svg(self, state, seat=None):
        return svg.document(100, 100, [])

    def click_areas(self, state, seat):
        stock = np.flatnonzero(np.asarray(state.owner) == STOCK)
        return [ClickArea(0.0, 0.0, 1.0 + float(stock.sum()), 10.0, (int(np.argmax(state.legal_action_mask)),))]


class SecretBid(HighCard):
    """Cards are played face down: a seat sees its own."""

    def observe(self, state, seat):
        view = super().observe(state, seat)
        return view._replace(seen=view.seen & False, table=jnp.where(jnp.arange(3) == 0, view.table, -1))


@breaks("event_keeps_secrets")
class TalksOfSecrets(SecretBid):
    """The inherited `event` names every action."""


@breaks("action_names")
class Nameless(HighCard):
    def action_name(self, action):
        return str(action) if action else ""


@pytest.mark.thorough
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_caught_by_its_check(name):
    report = check(BROKEN[name](), games=6, max_steps=40, only=[name])
    assert list(report.failures) == [name]
    assert "raised" not in report.failures[name], report.failures[name]


def test_every_check_has_a_broken_game():
    elsewhere = {"final_observation_kept", "program_size", "launches_on_a_gpu"}  # the tests below
    assert set(BROKEN) == set(CHECKS) - elsewhere


def test_numbers_that_are_no_actions_are_tried():
    class TrustsTheIndex(HighCard):
        def is_legal(self, state, action):
            return state.legal_action_mask[action]  # -1 and A are taken for the last action

    report = check(TrustsTheIndex(), games=6, only=["illegal_action_loses"])
    assert "illegal action -1 does not end the game" in report.failures["illegal_action_loses"]


def test_a_bot_switch_of_its_own():
    class SameBots(HighCard):
        def bot_switch(self, names):
            return super().bot_switch(names)

    class TakesAnyName(HighCard):
        def bot_switch(self, names):
            return super().bot_switch([name for name in names if name in self.bots] or ["random"])

    only = ["bot_switch_plays_as_the_bots"]
    report = check(SameBots(), games=6, only=only)
    assert report.ok and "3 bots" in report.results[0].note
    report = check(TakesAnyName(), games=6, only=only)
    assert "does not raise UserError" in report.failures[only[0]]
    assert check(HighCard(), games=6, only=only).results[0].status == "SKIP"


def test_legal_actions_that_come_from_exchanged_cards_are_caught():
    class OwnHandToo(HighCard):
        def permute_hidden(self, state, seat, key):
            permuted = super().permute_hidden(state, seat, key)
            return permuted.replace(legal_action_mask=~state.legal_action_mask)

    report = check(OwnHandToo(), games=6, only=["hidden_information"])
    assert "changes the legal actions of seat 0" in report.failures["hidden_information"]


def test_a_world_with_drawn_holders_that_tells_of_the_real_ones_is_caught():
    class RemembersTheStock(HighCard):
        def world_with(self, state, seat, holders, key):
            stock = jnp.argmax(state.owner == STOCK).astype(jnp.float32)
            return super().world_with(state, seat, holders, key).replace(rewards=jnp.full(3, stock))

    report = check(RemembersTheStock(), games=6, only=["card_beliefs"])
    assert "world_with draws depends on what seat 0 cannot see: .rewards" in report.failures["card_beliefs"]


def test_a_game_that_wrongly_says_that_nothing_is_hidden():
    class SaysItIsOpen(HighCard):
        perfect_information = True

    report = check(SaysItIsOpen(), games=6, only=["hidden_information"])
    assert "sees something of .owner that is hidden from the seat to move" in report.failures["hidden_information"]


def test_a_game_of_which_no_leak_can_be_found_does_not_look_as_if_it_had_none():
    keeps, silent, only = HighCard(), HighCard(), ["hidden_information"]
    keeps.permute_hidden, silent.permute_hidden = lambda state, *_: state, lambda *_: None
    assert "redraws nothing" in check(keeps, games=6, only=only).failures[only[0]]
    assert "fulfils the contract, but no leak was looked for" in str(check(silent, games=6, only=only))


def test_unseen_leaves_of_a_perfect_information_game_are_named():
    class Timed(Corridor):
        perfect_information = True

    results = [check(game, games=6, only=["hidden_information"]).results[0] for game in (Timed(), TicTacToe())]
    assert [result.note for result in results] == [
        "nothing is hidden, provided that .time follows from what is seen",
        "nothing is hidden",
    ]


def test_a_note_of_an_action_that_tells_a_secret_is_caught():
    assert "note" in check(Whispers(), games=6, only=["rendering_keeps_secrets"]).failures["rendering_keeps_secrets"]


def test_an_event_that_keeps_a_secret_passes():
    class Discreet(SecretBid):
        def event(self, before, action, after, seat=None):
            actor = int(before.current_player)
            return super().event(before, action, after, seat) if seat in (None, actor) else f"seat {actor} has played"

    report = check(Discreet(), games=6, only=["event_keeps_secrets"])
    assert report.ok and "pairs of secret actions" in report.results[0].note


def test_a_lost_final_observation_is_caught(monkeypatch):
    class Forgetful(AutoReset):
        def step(self, state, action, key):
            state, final = super().step(state, action, key)
            return state, final._replace(observation=state.observation)

    monkeypatch.setattr(probe, "AutoReset", Forgetful)
    report = check(HighCard(), games=4, only=["final_observation_kept"])
    assert "loses the final observation" in report.failures["final_observation_kept"]


def test_a_slow_compile_is_caught(monkeypatch):
    monkeypatch.setattr(conformance.learning_checks, "SLOW_COMPILE_SECONDS", 0.0)
    report = check(TicTacToe(), games=2, only=["program_size"])
    assert "to compile" in report.failures["program_size"]


class LoopsByData(HighCard):
    def _step(self, state, action, key):
        rounds = jax.lax.while_loop(lambda n: n < action, lambda n: n + 1, jnp.int32(0))
        return super()._step(state, rounds, key)


class Shuffles(HighCard):
    def _step(self, state, action, key):
        return super()._step(state, jnp.sort(jnp.stack([action, action]))[0], key)


class WritesAtAnIndex(HighCard):
    def _step(self, state, action, key):
        return super()._step(state, jnp.zeros(8, jnp.int32).at[action].add(action)[action], key)


@pytest.mark.parametrize(
    ("game", "advice"),
    [(LoopsByData, "waits for the host in each round"), (Shuffles, "a sort"), (WritesAtAnIndex, "x.at[i].set(y)")],
)
def test_lines_that_a_gpu_dislikes_are_named_with_advice(game, advice):
    report = check(game(), games=2, only=["launches_on_a_gpu"])
    [told] = [each for each in report.results[0].note.split("; ") if f"({game.__name__}._step)" in each]
    assert report.ok and "test_conformance.py:" in told and advice in told


def test_a_crash_of_the_game_is_a_finding_not_a_crash_of_the_suite():
    class Crashes(HighCard):
        def _step(self, state, action, key):
            raise RuntimeError("out of cards")

    report = check(Crashes(), games=2, only=["random_play_terminates"])
    assert "raised RuntimeError: out of cards" in report.failures["random_play_terminates"]


# ---- command line ---------------------------------------------------------------------------------------------------


def run(*words):
    parser = argparse.ArgumentParser()
    check_command.add_options(parser)
    return check_command.main(parser.parse_args(words))


def test_the_command_reports_success_and_failure(capsys):
    assert run("tests.support.games:RockPaperScissors", "num_players=3", "--games", "2", "--only", "rewards") == 0
    told = capsys.readouterr().out
    assert "PASS  rewards" in told and "mean return of 2 random games by seat, ± two standard errors:" in told
    game = "tests.jaxrl_envs.conformance.test_conformance:UndeclaredCut"
    assert run(game, "--games", "16", "--only", "truncation") == 1
    out = capsys.readouterr().out
    assert "FAIL  truncation" in out and "does not fulfil the contract" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tests.support.games:HighCards"], "did you mean 'HighCard'"),
        (["tests.support.games:HighCard", "players"], "write option=value"),
        (["tests.support.games:Corridor", "length=long"], "length must be a whole number, got 'long'"),
        (["tests.support.games:HighCard", "--only", "seat_to_mov"], "did you mean 'seat_to_move'"),
        (["tests.support.games:HighCard", "--games", "0"], "at least 1"),
    ],
)
def test_a_bad_request_is_one_clear_sentence(words, message):
    with pytest.raises(UserError, match=message):
        run(*words)


def test_option_words():
    assert parse_options(["a=1", "b=false", "c=margin", "d=[1,2]", "e=0.5"]) == {
        "a": 1,
        "b": False,
        "c": "margin",
        "d": [1, 2],
        "e": 0.5,
    }
