"""Options that describe a search, for the commands that can search."""

from __future__ import annotations

from argparse import Namespace, _ActionsContainer
from typing import Any

from jaxrl.config import command_line
from jaxrl.search.settings import BELIEFS, LEARNED, OBJECTIVES, PLANNERS, SELF, SEQUENCE, SearchRequest, SearchSettings
from jaxrl_envs.shared.errors import UserError

SETTINGS = {  # of `SearchSettings` -> of the command line
    **{name: f"search_{name}" for name in ("planner", "objective", "prior", "depth", "belief", "kl", "sure")},
    **{name: name for name in ("worlds", "particles")},
}
SELF_DOUBT, SELF_PRIOR = 0.25, 0.05  # the policy itself is an inaccurate opponent model, so it counts for less


def add_options(parser: _ActionsContainer) -> None:
    """Adds the options that describe a search; those that are not given are None."""
    known = SearchSettings()
    parser.add_argument(
        "--search",
        type=command_line.whole,
        metavar="SIMS",
        help="look ahead: simulated games per move",
    )
    parser.add_argument(
        "--search-model",
        metavar="MODEL",
        help="who the others are taken for: self (the policy itself), opponent (who it is), bot:NAME, types (the "
        "policy or any bot, as their moves tell) (default: self)",
    )
    parser.add_argument(
        "--search-rollouts",
        metavar="WHO",
        help="who moves for the searching seat in simulated games: self, bot:NAME (default: self); with bots on all "
        "seats a game on the host plays them inside its engine, much faster",
    )
    parser.add_argument(
        "--search-planner",
        choices=PLANNERS,
        help=f"tree wants a network trained on the reward and episode evaluated (default: {known.planner})",
    )
    parser.add_argument(
        "--search-objective", choices=OBJECTIVES, help=f"what is maximised (default: {known.objective})"
    )
    parser.add_argument("--worlds", type=command_line.whole, help="hidden cards drawn per move (default: auto)")
    parser.add_argument(
        "--search-prior",
        type=command_line.real,
        metavar="W",
        help="returns for which a likelier move by e times is kept though it did worse: luck of few simulated games "
        f"counts for less (default: {known.prior})",
    )
    parser.add_argument(
        "--search-depth",
        type=command_line.whole,
        metavar="MOVES",
        help="own moves before the network judges (halving), which wants one trained on the reward and episode "
        f"evaluated; 0: play to the end (default: {known.depth}); decisions of a sequence where all seats are asked at "
        f"once (default: {SEQUENCE})",
    )
    parser.add_argument(
        "--search-belief",
        choices=BELIEFS,
        help="what hidden cards are drawn by: the rules alone, or what the run has learnt (ppo.belief) "
        f"(default: {known.belief})",
    )
    help = "draw the move near the policy, within NATS of KL divergence (default: play the best)"
    parser.add_argument("--search-kl", type=command_line.real, metavar="NATS", help=help)
    help = "play the policy's likeliest action unsearched if its probability is at least P (default: always search)"
    parser.add_argument("--search-sure", type=command_line.real, metavar="P", help=help)
    parser.add_argument(
        "--particles", type=command_line.whole, help=f"worlds of the belief; 0: none (default: {known.particles})"
    )


def search_of(args: Namespace) -> SearchRequest | None:
    """Returns the search that the options describe; None without --search. Raises UserError: an option describes a
    search without --search, or is out of its range."""
    if args.search is None:
        for name in ("search_model", "search_rollouts", *SETTINGS.values()):
            if getattr(args, name) is not None:
                raise UserError(f"--{name.replace('_', '-')} describes a search: ask for one with --search SIMS.")
        return None
    if args.search_belief == LEARNED and args.particles:
        raise UserError("--particles are kept by a uniform belief: leave them or --search-belief learned out.")
    model = args.search_model or SELF
    unsure: dict[str, Any] = {"doubt": SELF_DOUBT, "prior": SELF_PRIOR} if model == SELF else {}
    given = {key: value for key, name in SETTINGS.items() if (value := getattr(args, name)) is not None}
    settings = SearchSettings(simulations=args.search, **(unsure | given))
    return SearchRequest(settings, model, args.search_rollouts or SELF)
