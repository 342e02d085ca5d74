"""One battle to look at."""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free as release
from libc.string cimport memcmp

from jaxrl_envs.battle.engine.play.course cimport answer, run
from jaxrl_envs.battle.engine.play.decisions cimport is_legal
from jaxrl_envs.battle.engine.space.geometry cimport col_of, forget_everything, near, of_unit, row_of
from jaxrl_envs.battle.engine.observation cimport observe, planes
from jaxrl_envs.battle.engine.players cimport melee_share, ranged_share, script, scripted
from jaxrl_envs.battle.engine.rules cimport Rules
from jaxrl_envs.battle.engine.phases.scoring cimport pay_out
from jaxrl_envs.battle.engine.setup cimport begin, load_state, no_room, save_state
from jaxrl_envs.battle.engine.space.sight cimport firing_models, unit_distance2
from jaxrl_envs.battle.engine.state cimport (
    ACTIONS, BAD_STATE, FEATURES, NOTHING_ASKED, NO_DEPLOYMENT, NO_MEMORY, STYLES, Game, State, UnitCache, alive,
    side_hp,
)
from jaxrl_envs.host.engine cimport game_key, u64

import numpy as np

from jaxrl_envs.battle.engine.batch import MESSAGES
from jaxrl_envs.battle.engine.players import BOT_NAMES
from jaxrl_envs.shared.errors import UserError


cdef class Battle:
    """One battle, asked and answered step by step.

    Args:
      rules: maps, rosters and settings.
      seed, slot, episode: what the battle key is made of.
      key: the battle key itself, instead.
      tape: results of all dice, in the order of drawing, instead of the stream.
      saved: bytes of a battle to continue; nothing is set up then.

    Raises:
      UserError: a unit finds no place in its deployment zone.
      ValueError: the tape ends early, or holds a result that its die does not have; the bytes are of other rules.
    """

    def __init__(self, Rules rules not None, *, u64 seed=0, u64 slot=0, int episode=0, key=None, tape=None, saved=None):
        self.rules, self.half_turns = rules, []
        self.game.rules, self.game.tape, self.game.watch = &rules.spec, &self.tape, 1
        self.game.b.seed, self.game.b.slot = seed, slot
        if tape is not None:
            self._given = bytes(tape)
            self.tape.given, self.tape.given_count = <const uint8_t*>(<const char*>self._given), len(self._given)
        if saved is not None:
            self.load(saved)
            return
        begin(&self.game, game_key(seed, slot, episode) if key is None else key, episode)
        self._check()
        self._run()
        pay_out(&self.game, 0)

    def __dealloc__(self):
        release(self.tape.faces)
        release(self.tape.results)

    def _run(self):
        while True:
            run(&self.game)
            self._check()
            if not self.game.half_turn_done:
                break
            self.half_turns.append(self.state())
            self.game.half_turn_done = 0
        if self.over and [self.state()] != self.half_turns[len(self.half_turns) - 1 :]:
            self.half_turns.append(self.state())

    def _check(self):
        if self.game.error == NO_DEPLOYMENT:
            raise UserError(no_room(self.rules, &self.game) + ".")
        if self.game.error == NO_MEMORY:
            raise MemoryError(MESSAGES[NO_MEMORY])
        if self.game.error:
            raise ValueError(MESSAGES[self.game.error])

    def _require_question(self):
        if self.game.b.kind == NOTHING_ASKED:
            raise ValueError("the battle is over" if self.over else "no question is open")

    def step(self, int action):
        """Answers the open question. Raises ValueError for an illegal action, or if the tape ends early."""
        cdef int before = self.game.b.vp[0] - self.game.b.vp[1]
        self._require_question()
        if self.arranged:
            raise ValueError("a position that was arranged by hand is not played on")
        if not is_legal(&self.game.b, action):
            raise ValueError(f"action {action} is not legal here: {self.legal}")
        self.game.b.decisions += 1
        answer(&self.game, action)
        self._run()
        pay_out(&self.game, before)

    # ---- the question ----

    @property
    def over(self):
        return self.game.b.end != 0

    @property
    def side(self):
        return self.game.b.side

    @property
    def kind(self):
        return self.game.b.kind

    @property
    def unit(self):
        return self.game.b.unit

    @property
    def subject(self):
        return self.game.b.subject

    @property
    def roll(self):
        return self.game.b.roll

    @property
    def needed(self):
        return self.game.b.needed

    @property
    def legal(self):
        """The legal ids, ascending; none when the battle is over."""
        return [i for i in range(ACTIONS) if is_legal(&self.game.b, i)]

    # ---- players ----

    def script(self, int style):
        """The action that a style takes here, 0 balanced to 4 turtle."""
        self._require_question()
        if not 0 <= style < STYLES:
            raise ValueError(f"there is no style {style}")
        return script(&self.game, style)

    def random(self):
        """The next action of the random player of the side that is asked."""
        return self.bot(0)

    def bot(self, int number):
        """The action of a scripted player by its number in BOT_NAMES; a random one draws from its stream."""
        self._require_question()
        if not 0 <= number < len(BOT_NAMES):
            raise ValueError(f"there is no player {number}")
        return scripted(&self.game, number)

    # ---- what there is to see ----

    def _require_side(self, int side):
        if not 0 <= side <= 1:
            raise ValueError(f"sides are 0 and 1, not {side}")

    @property
    def dice(self):
        """Dice drawn so far."""
        return self.game.b.dice

    @property
    def faces(self):
        """The number of faces of every die that was drawn here."""
        return [self.tape.faces[i] for i in range(self.tape.count)]

    @property
    def results(self):
        """The results of these dice."""
        return [self.tape.results[i] for i in range(self.tape.count)]

    @property
    def tape_left(self):
        """Results on the tape that were not used."""
        return max(self.tape.given_count - self.tape.count, 0)

    @property
    def key(self):
        return self.game.b.key

    @property
    def map_index(self):
        return self.game.b.map

    @property
    def left(self):
        return self.game.b.left

    @property
    def first(self):
        return self.game.b.first

    @property
    def round(self):
        return self.game.b.round

    @property
    def active(self):
        return self.game.b.active

    @property
    def phase(self):
        """0 command, 1 movement, 2 shooting, 3 charge, 4 fight."""
        return self.game.b.phase

    @property
    def used(self):
        """The stratagems used in this phase, as bits, of both sides."""
        return [self.game.b.used[0], self.game.b.used[1]]

    @property
    def pair(self):
        return self.game.b.pair

    @property
    def reward(self):
        """Reward of side 0 from the last step."""
        return self.game.b.reward

    def observe(self, int side):
        """f32[1051], see section 9 of the rules."""
        cdef float[::1] out = np.empty(FEATURES, np.float32)
        self._require_side(side)
        observe(&self.game, side, &out[0])
        return np.asarray(out)

    def planes(self, int side):
        """Terrain, own and enemy models as u8[rows, cols] in the side's home frame."""
        self._require_side(side)
        shape = self.game.map.rows, self.game.map.cols
        cdef uint8_t[:, ::1] terrain = np.zeros(shape, np.uint8)
        cdef uint8_t[:, ::1] own = np.zeros(shape, np.uint8)
        cdef uint8_t[:, ::1] enemy = np.zeros(shape, np.uint8)
        planes(&self.game, side, &terrain[0, 0], &own[0, 0], &enemy[0, 0])
        return {"terrain": np.asarray(terrain), "own": np.asarray(own), "enemy": np.asarray(enemy)}

    def state(self):
        """[round, active side, CP, VP, units of side 0 and of side 1]; a unit is [models, lead, flags, cells]."""
        cdef State* b = &self.game.b
        cols = self.game.map.cols
        units = [
            [
                [
                    b.units[side][i].models,
                    b.units[side][i].lead,
                    b.units[side][i].flags,
                    [row_of(b.units[side][i].cell[k]) * cols + col_of(b.units[side][i].cell[k]) for k in range(b.units[side][i].models)],
                ]
                for i in range(self.game.roster[side].count)
            ]
            for side in range(2)
        ]
        return [b.round, b.active, [b.cp[0], b.cp[1]], [b.vp[0], b.vp[1]], units]

    def result(self):
        """Winner (None = draw or running), end reason, VP, round, wounds left and decisions."""
        cdef State* b = &self.game.b
        return {
            "winner": b.winner if b.winner < 2 else None,
            "end": b.end,
            "vp": [b.vp[0], b.vp[1]],
            "round": b.round,
            "hp": [side_hp(&self.game, 0), side_hp(&self.game, 1)],
            "decisions": b.decisions,
        }

    def save(self):
        """The whole battle, as `BattleEngine` saves it."""
        cdef State saved
        save_state(&self.game, <unsigned char*>&saved)
        return (<const char*>&saved)[: sizeof(State)]

    def load(self, data):
        """Continues from saved bytes; raises ValueError, and changes nothing, if they do not belong to these rules."""
        cdef const uint8_t[::1] view = np.ascontiguousarray(np.frombuffer(data, np.uint8))
        if view.shape[0] != sizeof(State):
            raise ValueError(f"a saved battle has {sizeof(State)} bytes, not {view.shape[0]}")
        if not load_state(&self.game, &view[0]):
            raise ValueError(MESSAGES[BAD_STATE])
        self.arranged = False

    def check_caches(self):
        """Raises AssertionError if anything that is remembered differs from what it would be computed to now.

        Afterwards everything is remembered: the next check misses no change.
        """
        if not caches_agree(&self.game):
            raise AssertionError("a cached distance, count or share is out of date")


# ---- checking the caches ---------------------------------------------------------------------------------------------

cdef bint _pairs_agree(Game* g, Game* fresh, int side, int unit) noexcept nogil:
    """Distances, firing models and shares of a living unit and all living enemies."""
    cdef int j, distance2, firing, ranged, melee
    for j in range(g.roster[1 - side].count):
        if not alive(g, 1 - side, j):
            continue
        distance2, firing = unit_distance2(fresh, side, unit, j), firing_models(fresh, side, unit, j)
        ranged, melee = ranged_share(fresh, side, unit, j), melee_share(fresh, side, unit, j)
        if side == 0 and (g.c.distance_known[unit] >> j) & 1 and g.c.distance2[unit][j] != distance2:
            return False
        if (g.c.firing_known[side][unit] >> j) & 1 and g.c.firing[side][unit][j] != firing:
            return False
        if (g.c.share_known[side][unit] >> j) & 1:
            if g.c.share[0][side][unit][j] != ranged or g.c.share[1][side][unit][j] != melee:
                return False
    return True


cdef bint _unit_agrees(Game* g, Game* fresh, int side, int unit) noexcept nogil:
    """Values derived from the place of a living unit."""
    cdef const UnitCache* mine = &g.c.unit[side][unit]
    cdef const UnitCache* other = of_unit(fresh, side, unit)
    cdef int o
    if not (g.c.unit_known[side] >> unit) & 1:
        return True
    for o in range(g.map.objectives):
        if mine.stand[o] != other.stand[o]:
            return False
    return mine.objective == other.objective and mine.on_objective == other.on_objective


cdef bint caches_agree(Game* g) noexcept nogil:
    """Whether all cached values equal recomputed ones; fills the whole cache first."""
    cdef Game fresh = g[0]
    cdef int side, i
    forget_everything(&fresh)
    if memcmp(g.c.occupied, fresh.c.occupied, sizeof(g.c.occupied)):
        return False
    for side in range(2):
        near(&fresh, side)
        if g.c.near_known[side] and memcmp(g.c.near[side], fresh.c.near[side], g.map.rows * sizeof(uint64_t)):
            return False
        for i in range(g.roster[side].count):
            if alive(g, side, i) and not (_unit_agrees(g, &fresh, side, i) and _pairs_agree(g, &fresh, side, i)):
                return False
    g.c = fresh.c
    return True
