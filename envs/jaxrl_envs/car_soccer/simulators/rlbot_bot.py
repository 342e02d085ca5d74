"""A bot for RLBot v5 (https://wiki.rlbot.org/v5/) that plays a policy of jaxrl, written by `jaxrl export --rlbot`.

What the policy sees and may do is computed here in NumPy from the game state that `rlgym_compat` makes of RLBot's
packets, as `jaxrl_envs.car_soccer.observe` and `actions` compute it in training.
"""

import json
from typing import Any

import numpy as np

SETTINGS = json.loads("{}")
BIG_PADS = (3, 4, 15, 18, 29, 30)
RECHARGE = np.where(np.isin(np.arange(34), BIG_PADS), 10, 4)  # seconds
TURN = (np.ones(3), np.array([-1.0, -1.0, 1.0]))  # how each team sees a vector of the field


def observation(state: Any, own: Any, previous: Any, clock: tuple[float, float, bool]) -> np.ndarray:
    """Encodes what a car sees, f32[F].

    Args:
      state: `rlgym_compat.GameState`.
      own: key of the car in `state.cars`.
      previous: controls of its last decision, f32[8].
      clock: its team's goals ahead, seconds left, and whether it is overtime.
    """
    car, ball = state.cars[own], state.ball
    here, turn = car.physics, TURN[car.team_num]
    others = [each for key, each in state.cars.items() if key != own]
    teams = [[each for each in others if (each.team_num == car.team_num) == same] for same in (True, False)]
    spare = (2 - len(teams[0]), 3 - len(teams[1])) if SETTINGS["padded"] else (0, 0)
    places = [place for team, empty in zip(teams, spare, strict=True) for place in (*team, *[None] * empty)]
    near = SETTINGS["observation"] == "relative"

    def seen(body: Any) -> list[Any]:
        """Place, velocity and spin of something else than the own car."""
        whole = (body.position, body.linear_velocity, body.angular_velocity)
        if not near:
            return [turn * part for part in whole]
        origin = (here.position, here.linear_velocity, here.angular_velocity)
        return [(part - start) @ here.rotation_mtx for part, start in zip(whole, origin, strict=True)]

    def row(each: Any) -> np.ndarray:
        """Returns a car, f32[20]."""
        if each is None:
            return np.zeros(20)
        body, axes = each.physics, here.rotation_mtx if near and each is not car else np.diag(turn)
        place, velocity, spin = seen(body) if each is not car else [turn * p for p in _moves(body)]
        flags = (each.on_ground, each.is_boosting, each.is_supersonic)
        rest = [each.boost_amount / 100, each.demo_respawn_timer, *flags]
        ways = [body.forward @ axes, body.up @ axes]
        return np.concatenate([place / 2300, *ways, velocity / 2300, spin / np.pi, rest])

    place, velocity, spin = seen(ball)
    elapsed = state.boost_pad_timers
    pads = np.where(elapsed > 0, np.maximum(RECHARGE - elapsed, 0), 0) / 10
    flips = (car.has_jumped, car.is_jumping, car.has_flipped, car.is_flipping, car.has_double_jumped, car.can_flip)
    secrets = [car.is_holding_jump, car.handbrake, *flips, car.air_time_since_jump]
    extras = {
        "present": lambda: np.array([each is not None for each in places]),
        "aim": lambda: _aim(here, ball.position, car.team_num),
        "previous_action": lambda: previous,
        "scoreboard": lambda: np.array([np.clip(clock[0] / 5, -1, 1), clock[1] / 300, clock[2]]),
    }
    parts = [place / 2300, velocity / 2300, spin / np.pi, pads[::-1] if car.team_num else pads, secrets]
    parts += [row(each) for each in (car, *places)] + [extras[name]() for name in SETTINGS["extras"]]
    return np.concatenate(parts).astype(np.float32)


def _moves(body: Any) -> tuple[Any, Any, Any]:
    return body.position, body.linear_velocity, body.angular_velocity


def _aim(here: Any, ball: Any, team: int) -> np.ndarray:
    theirs = np.array([0.0, SETTINGS["back"], SETTINGS["goal_height"] / 2]) * TURN[team]
    own = theirs * (1, -1, 1)
    parts = []
    for way in (ball - here.position, theirs - ball, theirs - here.position, own - here.position):
        length = np.linalg.norm(way)
        parts += [way / length @ here.rotation_mtx, [np.log((length + 1) / 1000)]]
    return np.concatenate(parts)


def legal(state: Any, own: Any, since: int = -1) -> np.ndarray:
    """Returns rows of the table that the policy may choose, bool[90], as in training (`CarSoccer.policy_mask`).

    Args:
      state, own: see `observation`.
      since: decisions since a kickoff, -1 once the ball was touched.
    """
    car, table = state.cars[own], np.array(SETTINGS["table"])
    if SETTINGS["openings"] and since >= 0:
        at = min(since, len(SETTINGS["openings"]["rows"][0]) - 1)
        cars = [car, *(each for key, each in state.cars.items() if key != own and each.team_num == car.team_num)]
        places = np.array([(TURN[car.team_num] * each.physics.position)[:2] for each in cars])
        off = np.linalg.norm(np.array(SETTINGS["openings"]["path"])[:, at] - places[:, None], axis=-1)
        number, near = off.argmin(axis=1), off.min(axis=1) < SETTINGS["openings"]["near"]
        row = SETTINGS["openings"]["rows"][number[0]][at]
        if row >= 0 and near[0] and not (near & (number < number[0])).any():  # else a mate goes
            return np.arange(len(table)) == row
    if car.demo_respawn_timer > 0:
        return (table == 0).all(axis=1)
    place, up = car.physics.position, car.physics.up
    x, y, z = np.abs(place)
    reach, ball_reach = SETTINGS["reach"], SETTINGS["ball_reach"]
    near = x > SETTINGS["side"] - reach or y > SETTINGS["back"] - reach or x + y > SETTINGS["corner"] - 1.5 * reach
    near = near or z < reach or z > SETTINGS["ceiling"] - reach
    near = near or np.linalg.norm(place - state.ball.position) < ball_reach
    apart = [np.linalg.norm(place - each.physics.position) for key, each in state.cars.items() if key != own]
    near = near or min(apart, default=np.inf) < 2 * reach
    jumps = car.has_flip or car.on_ground or car.is_jumping or car.is_autoflipping or near
    lies = not car.on_ground and up[2] < 0.5 and z < 100  # a packet does not tell what touches the ground
    upwards = (table == np.eye(8)[5]).all(axis=1)
    allowed = np.array(SETTINGS["allowed"]) | (upwards & lies)
    return ((car.boost_amount > 0) | (table[:, 6] == 0)) & (jumps | (table[:, 5] == 0)) & allowed


def main() -> None:
    """Joins the match that RLBot has started this program for."""
    from policy import NumpyPolicy
    from rlbot import flat
    from rlgym_rlbot import RLGymBot, RLGymBotConfig

    class Nothing:
        """Stands for RLGym's parts: what is seen and done is made with the decision, in `get_action`."""

        def reset(self, *_: Any) -> None:
            """Does nothing."""

        def build_obs(self, agents: Any, *_: Any) -> dict[Any, None]:
            """Returns nothing for each car."""
            return dict.fromkeys(agents)

    class Bot(RLGymBot):
        """Asks the policy every few ticks."""

        def __init__(self) -> None:
            super().__init__(Nothing(), Nothing(), default_agent_id=SETTINGS["agent"], config=RLGymBotConfig())
            self.policy, self.previous, self.since = NumpyPolicy(), np.zeros(8), -1

        def get_action(self, obs: Any, game_state: Any, packet: Any) -> list[Any]:
            """Returns the controls of the next ticks."""
            goals, match = [team.score for team in packet.teams], packet.match_info
            clock = (goals[self.team] - goals[1 - self.team], match.game_time_remaining, match.is_overtime)
            features = observation(game_state, self.player_id, self.previous, clock)
            waits = match.match_phase in (flat.MatchPhase.Countdown, flat.MatchPhase.Kickoff)
            self.since = self.since + 1 if waits else -1
            row = self.policy.act(features, legal(game_state, self.player_id, self.since))
            self.previous = np.array(SETTINGS["table"][row])
            throttle, steer, pitch, yaw, roll, jump, boost, handbrake = SETTINGS["table"][row]
            buttons = {"jump": jump > 0, "boost": boost > 0, "handbrake": handbrake > 0}
            pressed = {"throttle": throttle, "steer": steer, "pitch": pitch, "yaw": yaw, "roll": roll} | buttons
            return [flat.ControllerState(**pressed) for _ in range(SETTINGS["tick_skip"])]

    Bot().run()


if __name__ == "__main__":
    main()
