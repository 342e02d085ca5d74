"""An engine without the bridge: what its games cost by themselves, and one game for programs that step one.

`EnginePlay` plays many games in one call without the GIL, scripted players on all seats: the speed of the engine, with
and without observations, which everything around it is compared with. `SingleGame` is one game behind plain Python
calls, as a Gymnasium environment needs it. `WorkEngine` is an engine as slow as one likes.
"""

from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from jaxrl_envs.host.engine cimport Engine

import numpy as np


cdef inline long long _now() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <long long>now.tv_sec * 1000000000 + now.tv_nsec


cdef class WorkEngine(Engine):
    """Empty games with slow decisions: an engine that takes a given number of ns of a core for each.

    Args:
      num_games: N.
      work_ns: what a step takes.
      length, num_features, num_actions: as of `jaxrl_envs.host.engine.NoopEngine`; observations are all 0.
    """

    cdef readonly long long work_ns
    cdef readonly int length
    cdef int[::1] _time

    def __init__(self, num_games, work_ns, *, length=100, num_features=16, num_actions=8):
        self.num_games, self.num_players, self.num_actions, self.num_features = num_games, 2, num_actions, num_features
        self.num_stats, self.num_info, self.state_bytes, self.num_bots = 0, 0, 4, 1
        self.work_ns, self.length = work_ns, length
        self._time = np.zeros(num_games, np.int32)

    cdef int start(self, Py_ssize_t game) noexcept nogil:
        self._time[game] = 0
        return 0

    cdef int step(self, Py_ssize_t game, int action) noexcept nogil:
        cdef long long end = _now() + self.work_ns
        self._time[game] += 1
        while _now() < end:
            pass
        return 0

    cdef int bot(self, Py_ssize_t game, int number) noexcept nogil:
        return 0 if number == 0 else -2

    cdef int player(self, Py_ssize_t game) noexcept nogil:
        return -1 if self._time[game] >= self.length else self._time[game] & 1

    cdef bint legal(self, Py_ssize_t game, int action) noexcept nogil:
        return 0 <= action < self.num_actions

    cdef int ended(self, Py_ssize_t game) noexcept nogil:
        return self._time[game] >= self.length

    cdef void save(self, Py_ssize_t game, unsigned char* out) noexcept nogil:
        memcpy(out, &self._time[game], 4)

    cdef int load(self, Py_ssize_t game, const unsigned char* data) noexcept nogil:
        memcpy(&self._time[game], data, 4)
        return 0

    def error(self, Py_ssize_t game, int code) -> str:
        return "there is no such bot"


cdef class EnginePlay:
    """Many games of one engine, played by its own bots in a plain loop: no threads, no queues, no buffers for others.

    Args:
      engine: the engine; every game of it is started.
      bots: the number of the scripted player of each seat (0 is "random").
      observe: write observation and mask before every decision, as a learner needs them.
      round_info: which of the engine's info numbers counts rounds, -1 for none: summed over the games that end.
    """

    cdef readonly Engine engine
    cdef int[::1] _bots
    cdef bint _observe
    cdef Py_ssize_t _round_info
    cdef float[:, ::1] _observation  # [N, F]: as much memory as a learner's batch takes
    cdef unsigned char[:, ::1] _mask  # [N, A]
    cdef int[:, ::1] _info  # [N, I]

    def __init__(self, Engine engine, bots, *, observe=False, round_info=-1):
        self.engine, self._observe, self._round_info = engine, observe, round_info
        self._bots = np.asarray(bots, np.int32)
        n = engine.num_games
        self._observation = np.zeros((n, max(1, engine.num_features)), np.float32)
        self._mask = np.zeros((n, max(1, engine.num_actions)), np.uint8)
        self._info = np.zeros((n, max(1, engine.num_info)), np.int32)
        if self._bots.shape[0] != engine.num_players:
            raise ValueError(f"{engine.num_players} seats, but {self._bots.shape[0]} bots")
        cdef Py_ssize_t game
        for game in range(n):
            self._check(game, engine.start(game))

    def play(self, Py_ssize_t steps, Py_ssize_t first=0, Py_ssize_t count=-1):
        """`steps` decisions in each of `count` games from game `first` on (-1: all), game after game.

        Calls for different games may run in threads of their own.

        Returns:
          (decisions, games that ended, rounds in them).

        Raises:
          RuntimeError: the engine reported an error; with the number of the game.
        """
        cdef Py_ssize_t last = self.engine.num_games if count < 0 else first + count
        cdef Py_ssize_t step, game, bad = -1
        cdef long games = 0, rounds = 0
        cdef int code = 0
        if not 0 <= first <= last <= self.engine.num_games:
            raise ValueError(f"there are games 0 to {self.engine.num_games - 1}")
        with nogil:
            for step in range(steps):
                for game in range(first, last):
                    code = self._decide(game)
                    while code == 0 and self.engine.ended(game):
                        games += 1
                        if self._round_info >= 0:
                            self.engine.info(game, &self._info[game, 0])
                            rounds += self._info[game, self._round_info]
                        code = self.engine.start(game)
                    if code:
                        bad = game
                        break
                if code:
                    break
        if bad >= 0:
            self._check(bad, code)
        return steps * (last - first), games, rounds

    cdef int _decide(self, Py_ssize_t game) noexcept nogil:
        """One decision of the seat asked; 0 or an error code."""
        cdef int seat = self.engine.player(game), action
        if self._observe:
            self.engine.observe(game, seat, &self._observation[game, 0])
            self.engine.mask(game, &self._mask[game, 0])
        action = self.engine.bot(game, self._bots[seat])
        if action < 0:
            return -1 - action
        return self.engine.step(game, action)

    def _check(self, Py_ssize_t game, int code):
        if code:
            raise RuntimeError(f"game {game}: {self.engine.error(game, code)}")


cdef class SingleGame:
    """The first game of an engine behind plain calls; its outputs are arrays that every call overwrites.

    Attributes:
      observation: f32[F], of the seat asked.
      mask: bool[A], of its legal actions.
      rewards: f32[P], of the last call.
      player: the seat asked.
    """

    cdef readonly Engine engine
    cdef readonly object observation, mask, rewards
    cdef readonly int player
    cdef float[::1] _observation, _rewards
    cdef unsigned char[::1] _mask

    def __init__(self, Engine engine):
        self.engine = engine
        self.observation = np.zeros(engine.num_features, np.float32)
        self.mask = np.zeros(engine.num_actions, np.bool_)
        self.rewards = np.zeros(engine.num_players, np.float32)
        self._observation, self._rewards = self.observation, self.rewards
        self._mask = self.mask.view(np.uint8)

    def start(self):
        """The next game."""
        self._check(self.engine.start(0))
        self._write()

    def step(self, int action):
        """Applies an action of the seat asked; 0 running, 1 terminated, 2 truncated.

        Raises:
          ValueError: it is not legal.
        """
        if not self.engine.legal(0, action):
            raise ValueError(f"action {action} is not legal")
        self._check(self.engine.step(0, action))
        self._write()
        return self.engine.ended(0)

    def _write(self):
        self.player = self.engine.player(0)
        self.engine.observe(0, max(0, self.player), &self._observation[0])
        self.engine.mask(0, &self._mask[0])
        self.engine.rewards(0, &self._rewards[0])

    def _check(self, int code):
        if code:
            raise RuntimeError(self.engine.error(0, code))
