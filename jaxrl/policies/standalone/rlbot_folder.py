"""Writes a policy of car soccer as a folder for RLBot v5 (`jaxrl export --rlbot`), which needs NumPy but not jaxrl."""

from __future__ import annotations

import json
from pathlib import Path

from jaxrl.policies.export import ExportedPolicy, put
from jaxrl.policies.standalone.numpy_file import save_numpy
from jaxrl_envs.car_soccer import actions, field
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.car_soccer.simulators import rlbot_bot
from jaxrl_envs.shared.errors import UserError

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


def save_rlbot(folder: Path, policy: ExportedPolicy) -> None:
    """Writes bot.toml, loadout.toml, requirements.txt, bot.py and policy.py.

    Raises:
      UserError: the policy plays another game, sees what a packet does not tell, or has another hitbox or network; or a
        file cannot be written.
    """
    settings = settings_of(policy)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror}.") from error
    save_numpy(folder / "policy.py", policy)
    program = Path(rlbot_bot.__file__).read_text(encoding="utf-8")
    put(folder / "bot.py", program.replace('json.loads("{}")', f"json.loads({json.dumps(settings)!r})").encode())
    tags = ", ".join(f'"{tag}"' for tag in ("1v1", "teamplay") if settings["padded"] or tag == "1v1")
    told = BOT.format(agent=settings["agent"], name=policy.name[:31], update=policy.update, tags=tags)
    for name, text in {"bot.toml": told, "loadout.toml": LOADOUT, "requirements.txt": REQUIREMENTS}.items():
        put(folder / name, text.encode())


def settings_of(policy: ExportedPolicy) -> dict[str, object]:
    """Returns what `rlbot_bot` must know of the game that the policy was trained in.

    Raises:
      UserError: see `save_rlbot`.
    """
    env = policy.env
    if not isinstance(env, CarSoccer):
        raise UserError(f"--rlbot writes policies of car_soccer; this one plays {env.id}.")
    options = policy.config.env.options
    extras = list(options.get("extras", ()))
    if "prediction" in extras:
        raise UserError(
            "--rlbot: the policy sees where the ball will be (env.options.extras), which packets do not tell."
        )
    if env.settings.hitbox != "octane":
        raise UserError(f"--rlbot writes policies for the hitbox octane; this one drives a {env.settings.hitbox}.")
    if "/" in policy.name or '"' in policy.name or "\\" in policy.name or not policy.name.isprintable():
        raise UserError("--rlbot: the name of the policy has letters that a bot's name may not have.")
    reach, ball_reach = actions.reach(env.tick_skip)
    return {
        "agent": f"jaxrl/{policy.name}/{policy.update}",
        "observation": options.get("observation", "default"),
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
