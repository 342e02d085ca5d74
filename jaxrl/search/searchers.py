"""Reference searchers, `searcher-N`: fixed search players to compare with, which need no training.

A searcher draws N worlds that are consistent with what its seat has seen, evaluates its actions in them by sequential
halving (`halving`), and lets the game's best bot play all seats of the playouts (`Env.reference_bot`), to the end of
the game or of the part of it that the game can judge (`Env.standing`). It learns and remembers nothing: new worlds are
drawn uniformly at every move.
"""

from __future__ import annotations

from jaxrl.players.player import Player, bot_player
from jaxrl.players.spec import worlds_of
from jaxrl.search.player import has_standing, make_search
from jaxrl.search.policies import SearchParams, named_policy, no_guide
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.contract.env import Env

BATCH = 8192  # simulated games side by side


def reference_searcher(env: Env, worlds: int) -> Player:
    """Returns the searcher with this many worlds at each of its decisions. Raises UserError: the game cannot be
    searched."""
    settings = SearchSettings(
        simulations=4 * worlds,  # the best two actions meet all of the worlds
        objective="standing" if not env.simultaneous and has_standing(env) else "return",
        worlds=worlds,
        particles=0,
        candidates=env.num_actions,
        batch=BATCH,
    )
    search = make_search(env, settings, own=named_policy(env, env.reference_bot), guide=no_guide)
    return search.player(f"searcher-{worlds}", SearchParams(own=None), plain=True)


def scripted_player(env: Env, name: str) -> Player:
    """Returns the bot of this name, or the searcher "searcher-N". Raises UserError: there is no such bot, or the game
    cannot be searched."""
    worlds = worlds_of(name)
    return bot_player(env, name) if worlds is None else reference_searcher(env, worlds)
