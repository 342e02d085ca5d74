"""DAgger (Ross et al. 2011, https://arxiv.org/abs/1011.0686): a network clones recorded games, then plays itself and
clones what an expert would have done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jaxrl.networks.base import Network
from jaxrl.players.player import Player, network_player
from jaxrl.runs.logs.run_log import say
from jaxrl.training.imitation import collect_demonstrations, demonstrations
from jaxrl.training.imitation.cloning import CloningResult, CloningSettings, calibrated, clone
from jaxrl.training.imitation.demonstrations import DemonstrationSplit
from jaxrl.training.stages.continuation import derived_seed
from jaxrl.training.stopping import StopRequest
from jaxrl_envs.contract.env import PyTree
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.shared.errors import UserError, nearest


class Stop(StopRequest):
    """A stop request: checked between two steps of learning, and raised at once elsewhere."""

    def __init__(self) -> None:
        self._at_once = False
        super().__init__(self._interrupt)

    def _interrupt(self) -> None:
        if self._at_once:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Makes a stop request within the block, or before it, raise KeyboardInterrupt."""
        self._at_once = True
        try:
            if self.wanted:
                raise KeyboardInterrupt
            yield
        finally:
            self._at_once = False


def expert_of(env: HostEnv, name: str, place: Path) -> str:
    """Returns the bot that answers beside the learner; "" if the game's own player does, whose advice is recorded.
    Raises UserError: there is no such bot, or it cannot see the games. `name`: name of the bot; "": the advised player
    of the game, or else its reference bot. `place`: folder that recordings would go to."""
    if not name and env.game.advised(place) is not None:
        return ""
    name = name or env.reference_bot
    collect_demonstrations.refuse_unseen(env, "--expert: a bot")
    if name == "random" or name not in env.bots:
        raise UserError(f"--dagger: name the bot that knows better, --expert BOT: {nearest(name, env.bots)}")
    return name


class Dagger:
    """Trains a network on demonstrations, and on its own games with an expert's labels."""

    def __init__(
        self,
        env: HostEnv,
        network: Network,
        data: DemonstrationSplit,
        settings: CloningSettings,
        expert: str,
        opponents: Sequence[Player],
        games: int,
    ):
        """Nothing is learnt yet. `opponents`: bots that the learner meets, beside itself, where the game's own player
        advises."""
        self.env, self.network, self.data = env, network, data
        self._settings, self._expert, self._opponents, self._games = settings, expert, opponents, games

    def train(
        self, rounds: int, stop: Stop, folder: Path, on_epoch: Callable[[int, dict[str, float]], None]
    ) -> CloningResult:
        """Clones the recorded games and those of all rounds, or until a stop is requested. `folder`: folder for
        recordings of these games."""

        def cloned(before: CloningResult | None) -> CloningResult:
            data, ends = self.data, lambda: bool(stop.wanted)
            return clone(
                self.network, data.train, data.check, self._settings, on_epoch, should_stop=ends, before=before
            )

        learnt = cloned(None)
        with contextlib.suppress(KeyboardInterrupt):
            for number in range(1, rounds + 1):
                try:
                    with stop.at_once():
                        self._round(number, learnt.params, folder / f"round_{number}")
                except UserError as error:  # what was learnt before is not lost by it
                    say(f"round {number} could not be played, and is the last one: {error}")
                    break
                learnt = cloned(learnt)
        return calibrated(self.network, learnt._replace(stopped=bool(stop.wanted)), self.data.check)

    def _round(self, number: int, params: PyTree, folder: Path) -> None:
        """Plays games of the learner and adds what the expert would have done in them to the data."""
        env, seed = self.env, derived_seed(self._settings.seed, number)
        player = network_player(self.network, env, "learner", params, greedy=False)
        found = demonstrations.Found(known=self.data.known)
        if self._expert:
            games = collect_demonstrations.labelled_by_bot(env, player, self._expert, self._games, seed)
            demonstrations.take(found, env.game, f"bot {self._expert}", games)
        else:
            advised = env.game.advised(folder)
            assert advised is not None
            collect_demonstrations.record_advised(env, advised, player, [player, *self._opponents], self._games, seed)
            demonstrations.read_into(found, env.game, [demonstrations.source_of(env.game, str(folder))], say)
        self.data.add(found)
        say(f"round {number}: {self.data.summary(found)}")
