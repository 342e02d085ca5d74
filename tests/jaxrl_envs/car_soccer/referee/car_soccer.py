"""A plain referee of car soccer: one arena, one tick at a time, slow and obvious, float64 (float32 for timers).

Written from the specification, part by part, beside the engine: what a car does to itself is in `car_soccer_car`, box
against box in `car_soccer_boxes`, contact points in `car_soccer_points`. Cars are Octanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from jaxrl_envs.car_soccer.physics.settings import HITBOXES
from tests.jaxrl_envs.car_soccer.referee import car_soccer_car as own
from tests.jaxrl_envs.car_soccer.referee.car_soccer_boxes import box_contacts, cast_box
from tests.jaxrl_envs.car_soccer.referee.car_soccer_car import (
    BALL_MASS,
    DT,
    HALF,
    OFFSET,
    RADIUS,
    REACH,
    SECOND,
    UP,
    Car,
    curve,
    unit,
    yields,
)
from tests.jaxrl_envs.car_soccer.referee.car_soccer_chassis import touches

BALL_REACH = 0.02 * (RADIUS + 4)
PLANES = [(UP, 0.0), (-UP, -2048.0), (np.array([1.0, 0, 0]), -4096.0), (np.array([-1.0, 0, 0]), -4096.0)]
BIG = [(-3584, 0), (3584, 0), (-3072, 4096), (3072, 4096), (-3072, -4096), (3072, -4096)]
SMALL = [
    (0, 1024),
    (0, 2816),
    (0, 4240),
    (1024, 0),
    (940, 3308),
    (1788, 2300),
    (1792, 4184),
    (2048, 1036),
    (3584, 2484),
]
SMALL = sorted({(i * x, j * y) for x, y in SMALL for i in (-1, 1) for j in (-1, 1)}, key=lambda pad: (pad[1], pad[0]))
PADS = [(np.array([x, y, 73.0]), True) for x, y in BIG] + [(np.array([x, y, 70.0]), False) for x, y in SMALL]


@dataclass
class Ball:
    position: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray
    inverse_mass = 1 / BALL_MASS
    inverse_inertia = np.eye(3) / own.BALL_INERTIA


class Mesh:
    """Triangles f64[N, 3, 3], wound so that normals point into the arena, in the order in which they are visited."""

    def __init__(self, corners):
        self.corners = corners
        edges = np.roll(corners, -1, axis=1) - corners
        normals = np.cross(edges[:, 0], edges[:, 1])
        self.normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
        self.low, self.high = corners.min(1), corners.max(1)
        users: dict[Any, list] = {}
        for n, k in np.ndindex(len(corners), 3):
            edge = frozenset([tuple(corners[n, k].round(3)), tuple(corners[n, (k + 1) % 3].round(3))])
            users.setdefault(edge, []).append((n, k))
        self.sharp = np.ones((len(corners), 3), bool)  # edge k of n sticks out, or belongs to no other triangle
        self.alone = np.ones((len(corners), 3), bool)  # belongs to no other triangle
        for pair in users.values():
            for (n, k), (m, j) in [(a, b) for a in pair for b in pair if a != b]:
                self.alone[n, k] = False
                self.sharp[n, k] = self.normals[n] @ (corners[m, (j + 2) % 3] - corners[n, k]) < -0.005

    def near(self, low, high):
        return np.flatnonzero(((self.high >= low) & (self.low <= high)).all(1))

    def surrounds(self, n, point):
        away = self.corners[n] - point
        return bool((np.cross(away, np.roll(away, -1, axis=0)) @ self.normals[n] >= -0.25).all())


@dataclass
class Arena:
    """`mesh` None is empty space: no planes either. `place` says where a demolished car comes back (0-3)."""

    ball: Ball
    cars: list[Car]
    mesh: Mesh | None = None
    tick: int = 0
    cooldown: np.ndarray = field(default_factory=lambda: np.zeros(34, np.float32))
    lock: list[int] = field(default_factory=lambda: [-1] * 34)
    place: Any = lambda tick, car: 0

    def step(self, controls) -> None:
        """One tick (part b, 2)."""
        asleep = not (self.ball.velocity.any() or self.ball.angular_velocity.any())
        for number, (car, control) in reversed(
            [*enumerate(zip(self.cars, controls, strict=True))]
        ):  # the last one first
            car.absent = car.is_demoed
            if car.is_demoed:
                self.wait(number)
            if not car.is_demoed:
                own.drive(car, control, self.cast)
        self.cooldown = np.maximum(self.cooldown - SECOND, np.float32(0))
        self.ball.velocity = self.ball.velocity * (1 - 0.03) ** DT
        solver, hit, woken = self.contacts(asleep)
        solver.solve()
        for body in solver.bodies:
            if not asleep or woken if body.of is self.ball else not body.of.is_demoed:
                move(body)
        for car in self.cars:
            if not car.absent and not car.is_demoed:
                limit(car)
        self.pads()
        self.ball.velocity = cap(self.ball.velocity + hit, 6000)
        self.ball.angular_velocity = cap(self.ball.angular_velocity, 6)
        self.tick += 1

    def wait(self, number) -> None:
        """A demolished car waits and comes back as new (part c, 4)."""
        car = self.cars[number]
        car.respawn_time = max(car.respawn_time - SECOND, np.float32(0))
        if car.respawn_time == 0:
            side = 1.0 if car.team == 0 else -1.0
            x = (-2304.0, -2688.0, 2304.0, 2688.0)[self.place(self.tick, number)]
            axes = np.array([[0, side, 0], [-side, 0, 0], [0, 0, 1]])
            car.__init__(car.team, np.array([x, -4608 * side, 36]), np.zeros(3), np.zeros(3), axes)
            car.absent = True  # it moves from the next tick on

    # ---- rays -------------------------------------------------------------------------------------------------------

    def cast(self, car, origin, direction, length):
        """What a wheel's ray meets first: distance, normal and body, None for the arena (part c, 1)."""
        hits = [(*hit, None) for hit in self.cast_world(origin, direction, length)]
        away = origin - self.ball.position
        half, rest = away @ direction, away @ away - RADIUS**2
        if rest > 0 and half * half > rest:
            distance = -half - math.sqrt(half * half - rest)
            hits.append((distance, unit(away + direction * distance), self.ball))
        for other in self.cars:
            if other is not car and not other.is_demoed:
                place, along = other.axes @ (origin - other.centre), other.axes @ direction
                hit = cast_box(place, along * length, HALF)
                hits += [(hit[0] * length, hit[1] @ other.axes, other)] if hit else []
        hits = [hit for hit in hits if 0 <= hit[0] <= length]
        return min(hits, key=lambda hit: hit[0]) if hits else None

    def cast_world(self, origin, direction, length):
        if self.mesh is None:
            return
        for normal, offset in PLANES:
            slope, height = direction @ normal, origin @ normal - offset
            if slope < -1e-9 and height >= 0:
                yield height / -slope, normal
        end = origin + direction * length
        for n in self.mesh.near(np.minimum(origin, end), np.maximum(origin, end)):
            normal = self.mesh.normals[n]
            slope = direction @ normal
            if abs(slope) > 1e-9:
                distance = (self.mesh.corners[n, 0] - origin) @ normal / slope
                if distance >= 0 and self.mesh.surrounds(n, origin + direction * distance):
                    yield distance, -np.sign(slope) * normal

    # ---- contacts ---------------------------------------------------------------------------------------------------

    def contacts(self, asleep):
        """All contacts at the positions before the tick moves anything, in the order in which they are solved."""
        ball = Body(self.ball, np.zeros(3) if asleep else -650 * UP * DT, np.zeros(3))
        bodies = [Body(car, (car.acceleration - 650 * UP) * DT, car.angular_acceleration * DT) for car in self.cars]
        present = [n for n, car in enumerate(self.cars) if not car.absent]
        solver = Solver([ball, *(bodies[n] for n in present)])
        surfaces = []
        if not asleep and self.mesh is not None:
            surfaces = [*self.ball_planes(), *self.ball_triangles()]
        hit, woken = np.zeros(3), False
        for n in present:
            added = self.touch_ball(solver, ball, bodies[n])
            woken, hit = woken or added is not None, hit + (added if added is not None else 0)
            if self.mesh is not None:
                self.touch_arena(solver, bodies[n])
        for low, high in combinations(present, 2):
            self.touch_car(solver, bodies, (high, low))
        for normal, gap in surfaces:
            solver.walls.append([normal, max(-gap * 0.8 / DT, 0.0), 0.0])
        if surfaces:  # one contact for the velocity, whatever the number of surfaces (part c, 6)
            normal = sum(normal for normal, _ in surfaces) / len(surfaces)
            solver.add(ball, None, normal, -normal * RADIUS, None, 0.0, (0.6, 0.35))
        return solver, hit, woken

    def ball_planes(self):
        for normal, offset in PLANES:
            gap = self.ball.position @ normal - offset - RADIUS
            if gap < BALL_REACH:
                yield normal, gap

    def ball_triangles(self):
        """Triangles that the ball touches, four at most (part c, 6)."""
        centre, mesh, found = self.ball.position, self.mesh, []
        reach = RADIUS + BALL_REACH
        for n in mesh.near(centre - reach, centre + reach):
            normal = mesh.normals[n] * (1 if (centre - mesh.corners[n, 0]) @ mesh.normals[n] >= 0 else -1)
            foot = centre - normal * ((centre - mesh.corners[n, 0]) @ normal)
            ends = np.roll(mesh.corners[n], -1, axis=0)
            on_edges = [nearest_on(a, b, foot) for a, b in zip(mesh.corners[n], ends, strict=True)]
            k = int(np.argmin([np.linalg.norm(point - foot) for point in on_edges]))
            sides = np.cross(ends - mesh.corners[n], foot - mesh.corners[n]) @ mesh.normals[n]
            inside = bool((sides >= 0).all())
            away = centre - (foot if inside else on_edges[k])
            distance = np.linalg.norm(away)
            if distance < reach:
                on_edge = not inside or np.linalg.norm(on_edges[k] - foot) <= 5
                normal = away / distance if on_edge and mesh.sharp[n, k] else normal
                found = four_of([*found, (distance - RADIUS, away / distance, normal)])
        return [(normal, gap) for gap, _, normal in found]

    def touch_ball(self, solver, ball, body):
        """A car's rounded box against the ball, and the extra hit (part b, 9): what it adds to the ball, None if they
        are apart.
        """
        car = body.of
        local = car.axes @ (ball.of.position - car.centre)
        nearest = np.clip(local, -own.INNER, own.INNER)
        distance = np.linalg.norm(local - nearest)
        gap = distance - own.MARGIN - RADIUS
        if distance < 1e-9 or gap >= BALL_REACH:
            return None
        normal = (local - nearest) / distance @ car.axes
        arm = (OFFSET + nearest) @ car.axes + normal * own.MARGIN
        solver.add(ball, body, normal, -normal * RADIUS, arm, gap, (0.0, 2.0))
        if self.tick <= car.hit_tick + 1:
            return np.zeros(3)
        car.hit_tick = self.tick
        speed = min(np.linalg.norm(ball.of.velocity - car.velocity), 4600)
        direction = unit((ball.of.position - car.position) * [1, 1, 0.35])
        direction = unit(direction - car.axes[0] * (direction @ car.axes[0]) * 0.35)
        return direction * speed * curve(speed, (0, 0.65), (500, 0.65), (2300, 0.55), (4600, 0.3))

    def touch_arena(self, solver, body) -> None:
        """Triangles that a car touches, four at most, and its deepest corner on each plane (parts b, 9; c, 8)."""
        car, found = body.of, []
        for touch in touches(self.mesh, car.position, car.axes, HITBOXES["octane"]):
            found = four_of([*found, (touch.gap, touch.point, touch.normal)])
            car.world_contact, car.world_contact_normal = True, touch.felt
        for normal, offset in PLANES:
            local, _, gap = lowest_corner(car, normal, offset)
            if gap < REACH:
                found.insert(0, (gap, local @ car.axes, normal))  # found last, solved first
                car.world_contact, car.world_contact_normal = True, normal
        for gap, arm, normal in found:
            solver.add(body, None, normal, arm, None, gap, (0.3, 0.3))

    def touch_car(self, solver, bodies, pair) -> None:
        """Box against box, and bumps at every point (part c, 3)."""
        one, two = (self.cars[n] for n in pair)
        for touch in box_contacts(one.centre, one.axes, two.centre, two.axes, HALF):
            arms = touch.point + touch.normal * touch.gap - one.position, touch.point - two.position
            solver.add(*(bodies[n] for n in pair), touch.normal, *arms, touch.gap, (0.1, 0.09))
            self.bump(*pair, one.axes @ arms[0])
            self.bump(*pair[::-1], two.axes @ arms[1])

    def bump(self, number, other, local) -> None:
        """One car's front hits another car: a bump, or a demolition (parts b, 9; c, 3)."""
        car, victim = self.cars[number], self.cars[other]
        cooling = car.bumped_car == other and car.bump_cooldown > 0
        if car.is_demoed or victim.is_demoed or cooling or local[0] <= 64.5:
            return
        speed = car.velocity @ unit(victim.position - car.position)
        if speed <= 0 or speed <= victim.velocity @ unit(car.velocity):
            return
        car.bumped_car, car.bump_cooldown = other, np.float32(0.25)
        if car.is_supersonic and car.team != victim.team:
            victim.is_demoed, victim.respawn_time = True, np.float32(3)
            return
        ground = (0, 5 / 6), (1400, 1100), (2200, 1530)
        air = (0, 5 / 6), (1400, 1390), (2200, 1945)
        along = curve(speed, *(ground if victim.on_ground else air))
        up = victim.axes[2] if victim.on_ground else UP
        victim.bump = victim.bump + unit(car.velocity) * along + up * curve(speed, (0, 1 / 3), (1400, 278), (2200, 417))

    # ---- pads -------------------------------------------------------------------------------------------------------

    def pads(self) -> None:
        """Who stands on which pad, the last car of several, and what it gives (parts b, 10; c, 5)."""
        lock = [-1] * 34
        for number, car in enumerate(self.cars):
            if car.is_demoed or car.boost >= 100 or car.position[2] > 345:
                continue
            size = HALF @ abs(car.axes) + 2
            for pad, (position, big) in enumerate(PADS):
                if self.lock[pad] == number:
                    side = 160 if big else 120
                    low, high = position - [side, side, 0], position + [side, side, 64]
                    there = bool((high > car.centre - size).all() and (low < car.centre + size).all())
                else:
                    away = car.position - position
                    there = math.hypot(*away[:2]) < (208 if big else 144) and abs(away[2]) < 95
                lock[pad] = number if there else lock[pad]
        for pad, (_, big) in enumerate(PADS):
            if lock[pad] >= 0 and self.cooldown[pad] == 0:
                car = self.cars[lock[pad]]
                car.boost = min(car.boost + (100 if big else 12), 100)
                self.cooldown[pad] = 10 if big else 4
        self.lock = lock


def four_of(points):
    """Points (gap, arm, ...) in the order in which they were found, of five one less: that which leaves the greatest
    area to the other three and the new one, but never the deepest of all (part c, 2).
    """
    if len(points) < 5:
        return points
    p, n = [point[1] for point in points], points[4][1]
    corners = [(p[1], p[3], p[2]), (p[0], p[3], p[2]), (p[0], p[3], p[1]), (p[0], p[2], p[1])]
    areas = [np.linalg.norm(np.cross(n - a, b - c)) for a, b, c in corners]
    deepest = min(range(5), key=lambda k: (points[k][0], k != 4))
    if deepest < 4:
        areas[deepest] = 0.0
    points[int(np.argmax(areas))] = points[4]
    return points[:4]


def nearest_on(start, end, point):
    edge = end - start
    return start + edge * np.clip((point - start) @ edge / (edge @ edge), 0, 1)


def lowest_corner(car, normal, offset):
    """The corner of a car's box that is deepest below a plane: in the car's axes, in the world, and its height."""
    local = OFFSET + np.where(car.axes @ -normal >= -1e-7, HALF, -HALF)
    world = car.position + local @ car.axes
    return local, world, world @ normal - offset


# ---- the solver -----------------------------------------------------------------------------------------------------


@dataclass
class Body:
    """A ball or a car in the solver: what forces add in this tick, what contacts add, and how they push it aside."""

    of: Any
    force: np.ndarray
    torque: np.ndarray
    linear: np.ndarray = field(default_factory=lambda: np.zeros(3))
    angular: np.ndarray = field(default_factory=lambda: np.zeros(3))
    aside: np.ndarray = field(default_factory=lambda: np.zeros(3))
    turn: np.ndarray = field(default_factory=lambda: np.zeros(3))

    def velocity(self, arm, forced=1.0, turned=1.0):
        """Of a point, with this tick's forces (but for their torque) or without."""
        spin = self.of.angular_velocity + self.torque * turned
        return self.of.velocity + self.force * forced + np.cross(spin, arm)


@dataclass
class Row:
    """One direction of a contact. `push`: the velocity that takes an overlap away."""

    ends: list  # (body, arm, 1 or -1)
    direction: np.ndarray
    target: float
    push: float = 0.0
    impulse: float = 0.0
    lifted: float = 0.0

    def __post_init__(self):
        self.inverse = 1 / sum(yields(body.of, arm, self.direction) for body, arm, _ in self.ends)

    def speed(self):
        return sum(s * self.direction @ (b.linear + np.cross(b.angular, arm)) for b, arm, s in self.ends)

    def push_speed(self):
        return sum(s * self.direction @ (b.aside + np.cross(b.turn, arm)) for b, arm, s in self.ends)

    def settle(self, low, high):
        new = min(max(self.impulse + (self.target - self.speed()) * self.inverse, low), high)
        change, self.impulse = new - self.impulse, new
        for body, arm, sign in self.ends:
            body.linear = body.linear + sign * change * self.direction * body.of.inverse_mass
            body.angular = body.angular + sign * change * body.of.inverse_inertia @ np.cross(arm, self.direction)

    def lift(self):
        new = max(self.lifted + (self.push - self.push_speed()) * self.inverse, 0.0)
        change, self.lifted = new - self.lifted, new
        for body, arm, sign in self.ends:
            body.aside = body.aside + sign * change * self.direction * body.of.inverse_mass
            body.turn = body.turn + sign * change * body.of.inverse_inertia @ np.cross(arm, self.direction)


class Solver:
    """Sequential impulses: all normal rows, then all friction rows, ten times (part b, 9)."""

    def __init__(self, bodies):
        self.bodies, self.rows, self.walls = bodies, [], []

    def add(self, one, two, normal, arm, second_arm, gap, material) -> None:
        """A contact; arms from the centres of the two bodies, the normal from the second to the first."""
        ends = [(one, arm, 1)] + ([(two, second_arm, -1)] if two is not None else [])
        relative = lambda *which: sum(s * body.velocity(a, *which) for body, a, s in ends)  # noqa: E731
        speed, after = normal @ relative(0, 0), relative()
        bounce = max(-material[0] * speed, 0.0) if abs(speed) >= 10 else 0.0
        slip = after - normal * (normal @ after)
        across = np.cross(normal, [1.0, 0, 0] if abs(normal[2]) > 0.7071 else [0, 0, 1.0])
        tangent = unit(slip if slip @ slip > 1.19e-7 * 2500 else across)
        row = Row(ends, normal, bounce - normal @ after, push=max(-gap * 0.8 / DT, 0.0))
        self.rows.append((row, Row(ends, tangent, -tangent @ relative(1, 0)), material[1]))

    def solve(self) -> None:
        ball = self.bodies[0]
        for _ in range(10):
            for wall in self.walls:
                normal, push, old = wall
                if push:
                    wall[2] = max(old + push - normal @ ball.aside, 0.0)
                    ball.aside = ball.aside + normal * (wall[2] - old)
            for row, *_ in self.rows:
                if row.push:
                    row.lift()
            for row, *_ in self.rows:
                row.settle(0.0, math.inf)
            for row, rubbing, friction in self.rows:
                if row.impulse > 0:
                    rubbing.settle(-friction * row.impulse, friction * row.impulse)


def move(body: Body) -> None:
    """Forces and contacts change velocities, those the positions (part b, 2)."""
    it = body.of
    it.velocity = it.velocity + body.force + body.linear
    it.angular_velocity = it.angular_velocity + body.torque + body.angular
    it.position = it.position + (it.velocity + body.aside) * DT
    if isinstance(it, Car):
        it.axes = turned(turned(it.axes, body.turn * 0.1 * DT), it.angular_velocity * DT)


def turned(axes, turn):
    """Rodrigues' formula, of every row."""
    angle = np.linalg.norm(turn)
    if angle < 1e-12:
        return axes
    axis = turn / angle
    return (
        axes * math.cos(angle)
        + np.cross(axis, axes) * math.sin(angle)
        + np.outer(axes @ axis, axis) * (1 - math.cos(angle))
    )


def limit(car: Car) -> None:
    """Supersonic, cooldown, bumps, greatest speed and spin (part b, 2.4)."""
    speed = np.linalg.norm(car.velocity)
    lasting = car.is_supersonic and car.supersonic_time < 1
    car.is_supersonic = bool(speed >= (2100 if lasting else 2200))
    car.supersonic_time = car.supersonic_time + SECOND if car.is_supersonic else np.float32(0)
    car.bump_cooldown = max(car.bump_cooldown - SECOND, np.float32(0))
    car.velocity, car.bump = cap(car.velocity + car.bump, 2300), np.zeros(3)
    car.angular_velocity = cap(car.angular_velocity, 5.5)


def cap(vector, longest):
    length = np.linalg.norm(vector)
    return vector * (longest / length) if length > longest else vector
