"""A policy of car soccer as a bot of RLBot v5: the files of its folder, which needs NumPy but not jaxrl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from jaxrl_envs.car_soccer import actions, field, openings
from jaxrl_envs.car_soccer.simulators import rlbot_bot
from jaxrl_envs.shared.errors import UserError

if TYPE_CHECKING:
    from jaxrl_envs.car_soccer.env import CarSoccer

REQUIREMENTS = "numpy\nrlgym-rlbot[rocketsim]>=0.3\n"  # Python 3.11 or 3.12; without rocketsim 0.3 cannot be imported
BOT = """[settings]
agent_id = "{agent}"
name = "{name}"
loadout_file = "loadout.toml"
run_command = "python bot.py"
run_command_linux = "python3 bot.py"

[details]
description = "A policy trained with jaxrl, after {update} updates"
fun_fact = ""
source_link = ""
developer = "jaxrl"
language = "python"
tags = [{tags}]
"""
LOADOUT = "[blue_loadout]\ncar_id = 23\n\n[orange_loadout]\ncar_id = 23\n"  # the car with the hitbox of the training


def files_of_a_bot(env: CarSoccer, name: str, update: int) -> dict[str, str]:
    """Returns the texts of bot.py, bot.toml, loadout.toml and requirements.txt by name; bot.py imports policy.py.

    Args:
      env: the game as the policy was trained in it.
      name, update: name of the policy, and its updates of training.

    Raises:
      UserError: the policy sees what a packet does not tell, or has another hitbox, or no name for a bot.
    """
    settings = settings_of(env)
    if any(letter in name for letter in '/"\\') or not name.isprintable():
        raise UserError("--rlbot: the name of the policy has letters that a bot's name may not have.")
    settings["agent"] = agent = f"jaxrl/{name}/{update}"
    program = Path(rlbot_bot.__file__).read_text(encoding="utf-8")
    tags = ", ".join(f'"{tag}"' for tag in ("1v1", "teamplay") if env.padded or tag == "1v1")
    return {
        "bot.py": program.replace('json.loads("{}")', f"json.loads({json.dumps(settings)!r})"),
        "bot.toml": BOT.format(agent=agent, name=name[:31], update=update, tags=tags),
        "loadout.toml": LOADOUT,
        "requirements.txt": REQUIREMENTS,
    }


def settings_of(env: CarSoccer) -> dict[str, object]:
    """Returns what `rlbot_bot` must know of the game; raises UserError, see `files_of_a_bot`."""
    extras = [name for part in env.extras for name, each in env.EXTRAS.items() if each is part]
    if "prediction" in extras:
        raise UserError(
            "--rlbot: the policy sees where the ball will be (env.options.extras), which packets do not tell."
        )
    if env.settings.hitbox != "octane":
        raise UserError(f"--rlbot writes policies for the hitbox octane; this one drives a {env.settings.hitbox}.")
    reach, ball_reach = actions.reach(env.tick_skip)
    book = None
    if env.openings:
        rows, path = openings.book()
        book = {"rows": rows.tolist(), "path": path.tolist(), "near": openings.NEAR}
    return {
        "openings": book,
        "observation": next(name for name, view in env.OBSERVATIONS.items() if view is env.view),
        "extras": extras,
        "padded": env.padded,
        "tick_skip": env.tick_skip,
        "table": actions.TABLE.tolist(),
        "allowed": env.allowed.tolist(),
        "reach": reach,
        "ball_reach": ball_reach,
        "side": field.SIDE,
        "back": field.BACK,
        "corner": field.CORNER,
        "ceiling": field.CEILING,
        "goal_height": field.GOAL_HEIGHT,
    }
