"""`python -m scripts.benchmark.peers.openspiel_learners`: OpenSpiel's own deep learners in a small game of two players.

    python -m scripts.benchmark.peers.openspiel_learners leduc_poker --seconds 40,120 --learners ppo,nfsp

NashConv over the number of players, as in `scripts.benchmark.exact`; measuring it is not counted. Settings
are those that OpenSpiel ships: PPO's of `ppo_example.py`, one learner a seat, its learning rate constant; NFSP's of
`nfsp_leduc_pytorch.py`; R-NaD's defaults. PPO and NFSP need torch and dm-tree, R-NaD dm-haiku and open_spiel 1.5.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from jaxrl import cli
from jaxrl.text_tables import table
from jaxrl_envs.adapters import require

BATCH = 1024  # decisions in an update of PPO: 8 games of 128, as in the example
Odds = Callable[[Any, int], Any]  # a learner's probabilities of the actions, by state and seat


def ppo(game: Any, module: Any, environment: Any) -> Iterator[Odds]:
    """Trains one PPO for each seat against the others; yields their policy after every game."""
    seats, shape = range(game.num_players()), tuple(game.information_state_tensor_shape())
    fixed = {"num_players": len(seats), "steps_per_batch": BATCH, "clip_coef": 0.1, "agent_fn": module.PPOAgent}
    agents = [module.PPO(shape, game.num_distinct_actions(), player_id=seat, **fixed) for seat in seats]

    def close(seat: int, now: Any) -> None:
        agents[seat].post_step([now.rewards[seat]], [now.last()])
        if agents[seat].cur_batch_idx == BATCH:
            agents[seat].learn([now])

    def odds(state: Any, seat: int) -> Any:
        mask = module.torch.tensor([state.legal_actions_mask()]).bool()
        seen = module.torch.tensor([state.information_state_tensor(seat)])
        return agents[seat].get_action_and_value(seen, mask)[-1].detach().numpy()[0]

    while True:
        now, waiting = environment.reset(), set()
        while not now.last():
            seat = now.observations["current_player"]
            if seat in waiting:
                close(seat, now)
            waiting.add(seat)
            now = environment.step([agents[seat].step([now])[0].action])
        for seat in waiting:
            close(seat, now)
        yield odds


def nfsp(game: Any, module: Any, environment: Any) -> Iterator[Odds]:
    """Trains neural fictitious self-play; yields its average policy after every game."""
    sizes = (game.information_state_tensor_size(), game.num_distinct_actions())
    buffers = {"replay_buffer_capacity": 200_000, "reservoir_buffer_capacity": 2_000_000, "batch_size": 128}
    learning = {"rl_learning_rate": 0.01, "sl_learning_rate": 0.01, "learn_every": 64, "anticipatory_param": 0.1}
    inner = {"update_target_network_every": 19_200, "epsilon_decay_duration": 20_000_000, "epsilon_end": 0.001}
    settings = {**buffers, **learning, **inner, "min_buffer_size_to_learn": 1000, "optimizer_str": "sgd"}
    agents = [module.NFSP(seat, *sizes, [128], epsilon_start=0.06, **settings) for seat in range(game.num_players())]

    def odds(state: Any, seat: int) -> Any:
        logits = agents[seat]._avg_network(module.torch.tensor([state.information_state_tensor(seat)]))[0]
        legal = module.torch.tensor(state.legal_actions_mask()).bool()
        return module.torch.softmax(module.torch.where(legal, logits, -1e9), -1).detach().numpy()

    while True:
        now = environment.reset()
        while not now.last():
            now = environment.step([agents[now.observations["current_player"]].step(now).action])
        for agent in agents:
            agent.step(now)
        yield odds


def rnad(game: Any, module: Any, environment: Any) -> Iterator[Odds]:
    """Trains regularised Nash dynamics; yields its policy after every update."""
    solver, actions = module.RNaDSolver(module.RNaDConfig(game_name=str(game))), range(game.num_distinct_actions())
    while True:
        solver.step()
        yield lambda state, seat: [solver.action_probabilities(state).get(action, 0.0) for action in actions]


LEARNERS = {"ppo": (ppo, "pytorch.ppo"), "nfsp": (nfsp, "pytorch.nfsp"), "rnad": (rnad, "algorithms.rnad.rnad")}


def measure(game: Any, name: str, seconds: list[float]) -> list[str]:
    """Returns the exploitability of a learner after each of these CPU seconds, in words."""
    (learner, module), began, found = LEARNERS[name], time.process_time(), list[str]()
    modules = ("pyspiel", *(f"open_spiel.python.{each}" for each in ("policy", "rl_environment", module)))
    spiel, policies, environments, own = (require(each, f"OpenSpiel's {name}", "open_spiel") for each in modules)
    for odds in learner(game, own, environments.Environment(game)):
        spent = time.process_time()
        if spent - began >= seconds[len(found)]:
            entries = policies.TabularPolicy(game)
            entries.action_probability_array[:] = [odds(each, each.current_player()) for each in entries.states]
            policy = policies.python_policy_to_pyspiel_policy(entries)
            found.append(f"{spiel.nash_conv(game, policy) / game.num_players():.3f}")
            began += time.process_time() - spent
        if len(found) == len(seconds):
            break
    return found


def main() -> int:
    """Measures and prints."""
    parser = cli.Parser(prog="python -m scripts.benchmark.peers.openspiel_learners", description=__doc__)
    parser.add_argument("game", nargs="?", default="leduc_poker")
    parser.add_argument("--seconds", type=lambda text: [float(each) for each in text.split(",")], default=[40.0, 120.0])
    parser.add_argument("--learners", type=lambda text: text.split(","), default=["ppo", "nfsp"])
    args = parser.parse_args()
    game = require("pyspiel", "its games", "jaxrl[openspiel]").load_game(args.game)
    rows = [[name, *measure(game, name, args.seconds)] for name in args.learners]
    print(table([args.game, *(f"{each:.0f} CPU s" for each in args.seconds)], rows))
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
