"""Car soccer's observation and scripted players in plain Python: numbers, lists and `if`s, one car at a time.

A moment is a dictionary: "ball" and every element of "cars" have position, velocity, spin (three numbers each), cars
also team, forward, right, up and the flags and timers that are read below; "pads" are cooldowns in the physics' order.
"""

from __future__ import annotations

import math

PADS = [  # in the order of the observation
    *(
        (0, -4240),
        (-1792, -4184),
        (1792, -4184),
        (-3072, -4096),
        (3072, -4096),
        (-940, -3308),
        (940, -3308),
        (0, -2816),
    ),
    *((-3584, -2484), (3584, -2484), (-1788, -2300), (1788, -2300), (-2048, -1036), (0, -1024), (2048, -1036)),
    *((-3584, 0), (-1024, 0), (1024, 0), (3584, 0), (-2048, 1036), (0, 1024), (2048, 1036), (-1788, 2300)),
    *((1788, 2300), (-3584, 2484), (3584, 2484), (0, 2816), (-940, 3308), (940, 3308), (-3072, 4096), (3072, 4096)),
    *((-1792, 4184), (1792, 4184), (0, 4240)),
]
BIG = [(3584, 0), (-3584, 0), (3072, 4096), (-3072, 4096), (3072, -4096), (-3072, -4096)]


# ---- what a seat sees -----------------------------------------------------------------------------------------------


def observation(moment: dict, seat: int, cars_per_team: int | None) -> list[float]:
    """The floats of RLGym's DefaultObs; room for `cars_per_team` cars of each team, or for the cars alone."""
    own = moment["cars"][seat]
    turn = [-1, -1, 1] if own["team"] else [1, 1, 1]

    def seen(vector, scale):
        return [value * sign / scale for value, sign in zip(vector, turn, strict=True)]

    def car_numbers(car):
        numbers = seen(car["position"], 2300) + seen(car["forward"], 1) + seen(car["up"], 1)
        numbers += seen(car["velocity"], 2300) + seen(car["spin"], math.pi)
        flags = [car["on_ground"], car["boosting_time"] > 0, car["is_supersonic"]]
        return [*numbers, car["boost"] / 100, car["respawn_time"], *map(float, flags)]

    ball = moment["ball"]
    numbers = seen(ball["position"], 2300) + seen(ball["velocity"], 2300) + seen(ball["spin"], math.pi)
    timers = [moment["pads"][place] / 10 for place in PADS]
    numbers += timers[::-1] if own["team"] else timers
    has_flip = not own["has_double_jumped"] and not own["has_flipped"] and own["air_time_since_jump"] < 1.25
    secrets = [own["jump_held"], own["handbrake"], own["has_jumped"], own["is_jumping"], own["has_flipped"]]
    secrets += [own["has_flipped"] and own["flip_time"] < 0.65, own["has_double_jumped"]]
    secrets += [not own["on_ground"] and not own["jump_held"] and has_flip, own["air_time_since_jump"]]
    numbers += [float(value) for value in secrets] + car_numbers(own)
    for mine in (True, False):
        others = [car for number, car in enumerate(moment["cars"]) if number != seat]
        others = [car_numbers(car) for car in others if (car["team"] == own["team"]) == mine]
        room = 0 if cars_per_team is None else cars_per_team - mine
        others += [[0.0] * 20] * (room - len(others))
        numbers += [value for car in others for value in car]
    return numbers


# ---- scripted players -----------------------------------------------------------------------------------------------


def controls(name: str, moment: dict, seat: int) -> list[float]:
    """throttle, steer, pitch, yaw, roll, jump, boost, handbrake of a scripted player."""
    car = moment["cars"][seat]
    driven = {
        "still": lambda: [0.0] * 8,
        "chase": lambda: drive(car, moment["ball"]["position"], 3),
        "striker": lambda: shoot(moment, car),
        "keeper": lambda: keep(moment, car),
        "rotation": lambda: rotation(moment, seat),
        "rule_policy": lambda: rule_policy(moment, seat),
    }
    chosen = driven[name]()
    if name != "still" and not car["on_ground"] and car["world_contact"] and car["up"][2] < 0.5:
        chosen[5] = 0.0 if car["jump_held"] else 1.0
    return chosen


def rule_policy(moment: dict, seat: int) -> list[float]:
    """The rules of `jaxrl_envs.car_soccer.bots.rule_policy`, first come first served."""
    car, ball = moment["cars"][seat], moment["ball"]
    there = [c for i, c in enumerate(moment["cars"]) if i != seat and not c["is_demoed"]]
    mates = [c for c in there if c["team"] == car["team"]]
    attack = -1 if car["team"] else 1
    x, y, z = ball["position"]
    far = math.dist(car["position"], ball["position"])

    def nearest_of(others):
        return all(far <= math.dist(other["position"], ball["position"]) for other in others)

    last = all(car["position"][1] * attack <= mate["position"][1] * attack for mate in mates)
    if abs(x) + abs(y) < 50 and math.hypot(*ball["velocity"]) < 50:
        return boosting(drive(car, ball["position"], 3), car["boost"] > 20)
    if worth_flying(car, ball, far):
        return fly(car, ball, far)
    if last and ball["velocity"][1] * attack < -300 and y * attack < 0:
        soon = [place + 0.5 * speed for place, speed in zip(ball["position"], ball["velocity"], strict=True)]
        return drive(car, [soon[0] / 2, (soon[1] - 5120 * attack) / 2, 0], 3)
    hungry = car["boost"] < 10 or (car["boost"] < 30 and far > 1500)
    pads = [pad for pad in BIG if moment["pads"][pad] == 0 and (last or pad[1] * attack <= 0)]
    if hungry and not nearest_of(there) and pads:
        return drive(car, [*min(pads, key=lambda pad: math.dist(pad, car["position"][:2])), 0], 3)
    if far < 1000:
        if nearest_of(mates) and car["boost"] >= 30:
            return boosting(drive(car, ball["position"], 3), car["boost"] > 50)
        return back_off(car, [-800 if x > 0 else 800, -5120 * attack, 0])
    if nearest_of(mates):
        return boosting(drive(car, ball["position"], 3), car["boost"] > 50)
    return drive(car, [0.5 * x, -2000 * attack, 0], 2)


def attack_of(car: dict) -> int:
    return -1 if car["team"] else 1


def ball_after(moment: dict, seconds: float) -> list[float]:
    """The ball in straight flight, within walls that its surface touches."""
    ball = moment["ball"]
    x, y, z = (place + seconds * speed for place, speed in zip(ball["position"], ball["velocity"], strict=True))
    radius = 91.25
    return [max(radius - 4096, min(4096 - radius, x)), max(radius - 5120, min(5120 - radius, y)), z]


def shoot(moment: dict, car: dict) -> list[float]:
    """The rules of `jaxrl_envs.car_soccer.bots.striker`."""
    ball, attack = moment["ball"], attack_of(car)
    far, speed = math.dist(car["position"], ball["position"]), math.hypot(*car["velocity"])
    x, y, z = ball["position"]
    kickoff = abs(x) + abs(y) < 50 and math.hypot(*ball["velocity"]) < 50
    lands, up = 0.0, ball["velocity"][2]
    if z > 160 or up > 300:  # until it falls to 160 at 650 uu/s^2
        lands = max(0.0, (up + math.sqrt(up * up + 4 * 325 * max(0.0, z - 160))) / 650)
    seconds = min(3.0, max(far / max(speed, 1400), lands))
    then = ball_after(moment, seconds)
    line = [0 - then[0], 5120 * attack - then[1]]
    length = math.hypot(*line)
    line = [line[0] / length, line[1] / length]
    to_ball = [then[0] - car["position"][0], then[1] - car["position"][1]]
    along = to_ball[0] * line[0] + to_ball[1] * line[1]
    if kickoff:
        target = ball_after(moment, 0.0)
    elif along > 0:
        back = min(1000.0, 0.35 * far)
        target = [then[0] - line[0] * back, then[1] - line[1] * back, then[2]]
    else:
        turned = to_ball[0] * line[1] - to_ball[1] * line[0]
        side = (turned > 0) - (turned < 0)
        target = [
            then[0] - 900 * line[0] - 500 * line[1] * side,
            then[1] - 900 * line[1] + 500 * line[0] * side,
            then[2],
        ]
    wanted = math.dist(target, car["position"]) / max(seconds, 0.1)
    chosen = drive(car, target, 3)
    fast = kickoff or wanted > speed + 200
    chosen = boosting(chosen, abs(angle_to(car, target)) < 0.25 and car["boost"] > 0 and fast)
    chosen[0] = float(kickoff or speed < wanted + 100)
    straight = sum(a * (b - c) for a, b, c in zip(car["forward"], ball["position"], car["position"], strict=True)) / far
    flip = not car["has_double_jumped"] and not car["has_flipped"] and car["air_time_since_jump"] < 1.25
    near = far < (700 if kickoff else 450) and z < 250 and along > 0 and speed > 700
    if flip and straight > 0.9 and (near or not car["on_ground"]):
        return [1.0, 0.0, -1.0, 0.0, 0.0, float(car["on_ground"] or not car["jump_held"]), 0.0, 0.0]
    return chosen


def keep(moment: dict, car: dict) -> list[float]:
    """The rules of `jaxrl_envs.car_soccer.bots.keeper`."""
    ball, attack = moment["ball"], attack_of(car)
    soon = ball_after(moment, 0.5)
    far = math.dist(car["position"], ball["position"])
    near = soon[1] * attack + 5120 < 1800
    comes = ball["velocity"][1] * attack < -600 and far < 2500
    if abs(soon[0]) < 2500 and (near or comes):
        return shoot(moment, car)
    place = [max(-700.0, min(700.0, 0.3 * soon[0])), -4870 * attack, 0.0]
    chosen = back_off(car, place)
    chosen[0] *= max(0.0, min(1.0, (math.dist(place, car["position"]) - 100) / 600))
    return chosen


def rotation(moment: dict, seat: int) -> list[float]:
    """The rules of `jaxrl_envs.car_soccer.bots.rotation`."""
    car, ball = moment["cars"][seat], moment["ball"]
    attack = attack_of(car)
    team = [c for c in moment["cars"] if c["team"] == car["team"] and (c is car or not c["is_demoed"])]

    def closest(one):
        others = [c for c in team if c is not one and not c["is_demoed"]]
        return all(
            math.dist(one["position"], ball["position"]) <= math.dist(c["position"], ball["position"]) for c in others
        )

    if closest(car):
        return shoot(moment, car)
    waiting = [c for c in team if not closest(c)]
    if all(car["position"][1] * attack <= c["position"][1] * attack for c in waiting):
        return keep(moment, car)
    x, y, _ = ball_after(moment, 0.0)
    return drive(car, [-0.4 * x, y - 2000 * attack, 0], 2)


def angle_to(car: dict, target: list[float]) -> float:
    """To the right of the front, seen from above."""
    to_x, to_y = target[0] - car["position"][0], target[1] - car["position"][1]
    front_x, front_y, _ = car["forward"]
    return math.atan2(front_x * to_y - front_y * to_x, front_x * to_x + front_y * to_y)


def drive(car: dict, target: list[float], gain: float) -> list[float]:
    steer = clip(gain * angle_to(car, target))
    return [1.0, steer, 0.0, steer, 0.0, 0.0, 0.0, 0.0]


def back_off(car: dict, target: list[float]) -> list[float]:
    angle = angle_to(car, target)
    if math.cos(angle) < -0.5:
        steer = clip(-2 * math.sin(angle))
        return [-1.0, steer, 0.0, steer, 0.0, 0.0, 0.0, 0.0]
    return drive(car, target, 2)


def worth_flying(car: dict, ball: dict, far: float) -> bool:
    later = ball["position"][2] + ball["velocity"][2] * far / 1000 - 325 * (far / 1000) ** 2
    if ball["position"][2] < 300 or later < 300 or far > 2000:
        return False
    flip = not car["has_double_jumped"] and not car["has_flipped"] and car["air_time_since_jump"] < 1.25
    return flip and car["boost"] >= 40 if car["on_ground"] else car["boost"] > 0


def fly(car: dict, ball: dict, far: float) -> list[float]:
    to_ball = [there - here for there, here in zip(ball["position"], car["position"], strict=True)]
    ahead, right, up = (
        sum(a * b for a, b in zip(axis, to_ball, strict=True)) / far
        for axis in (car["forward"], car["right"], car["up"])
    )
    pitch, yaw = clip(2 * math.atan2(up, ahead)), clip(2 * math.atan2(right, ahead))
    flip = not car["has_double_jumped"] and not car["has_flipped"] and car["air_time_since_jump"] < 1.25
    dodge = not car["on_ground"] and ahead > 0.9 and far < 300 and not car["jump_held"] and flip
    jump = car["on_ground"] or car["is_jumping"] or dodge
    return [1.0, yaw, -1.0 if dodge else pitch, yaw, 0.0, float(jump), float(ahead > 0.3), 0.0]


def boosting(chosen: list[float], wanted: bool) -> list[float]:
    chosen[6] = float(wanted and abs(chosen[1]) < 0.9)
    return chosen


def clip(value: float) -> float:
    return max(-1.0, min(1.0, value))


def nearest_row(table: list[list[float]], wanted: list[float], legal: list[bool]) -> int:
    """The legal row of a table most like some controls; jump counts four times, boost twice."""
    weights = [1, 1, 1, 1, 1, 4, 2, 1]

    def distance(row):
        return sum(w * (a - b) ** 2 for w, a, b in zip(weights, row, wanted, strict=True))

    return min((number for number in range(len(table)) if legal[number]), key=lambda number: distance(table[number]))
