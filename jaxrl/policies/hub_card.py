"""The model card of a policy on the Hugging Face hub: its head is that of all model cards, and the section `jaxrl`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from jaxrl import zoo
from jaxrl.policies.export import read_parameters
from jaxrl.statistics import Design, wilson
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

TASK = "reinforcement-learning"  # as the hub calls it
OLDER = "Its file does not say under which rules it was trained; `rules` are those of the package that pushed it."


def model_card(file: Path, repository: str, licence: str) -> str:
    """Returns the card of a policy file, with the figures and tables of the zoo's card beside it if there is one.

    Args:
      file: policy file.
      repository: "USER/REPO".
      licence: name that the hub has for a licence, e.g. "apache-2.0".

    Raises:
      UserError: not a policy file, or the card beside it is of another one.
    """
    found, digest = read_parameters(file), hashlib.sha256(file.read_bytes()).hexdigest()
    told, text = _zoo_card(file.with_suffix(".md"), digest)
    rules = found.made.get("rules") or registry.rules_hash(found.env_id)
    facts = {"name": found.name, "game": found.env_id, "game_version": found.env_version, "updates": found.update}
    own = told | facts | {"sha256": digest, "rules": rules, "made": told.get("made", ""), "conditions": found.made}
    tags = [TASK, "jaxrl", found.env_id]
    head: dict[str, Any] = {"license": licence, "library_name": "jaxrl", "pipeline_tag": TASK, "tags": tags}
    if rows := told.get("evaluation", {}).get("rows", []):
        head["model-index"] = [{"name": found.name, "results": [_result(found.env_id, row) for row in rows]}]
    body = f"""# {repository}

A policy of [jaxrl](https://pypi.org/project/jaxrl/) for {found.env_id}, after {found.update:,} updates of training.

    pip install 'jaxrl[hub]'
    jaxrl play hf:{repository}
    jaxrl evaluate hf:{repository}

{text if found.made.get("rules") else f"{OLDER}{chr(10)}{chr(10)}{text}"}"""
    return f"{zoo.DASHES}{files.dump(head | {'jaxrl': own}, width=120)}{zoo.DASHES}\n{body.rstrip()}\n"


def _zoo_card(card: Path, digest: str) -> tuple[dict[str, Any], str]:
    """Returns the head and the tables of a card that `scripts.zoo` made; ({}, "") without a card."""
    if not card.is_file():
        return {}, ""
    told, text = zoo.split_card(card.read_text(encoding="utf-8"), str(card))
    if told.get("sha256") != digest:
        raise UserError(f"{card} is not the card of the policy file beside it: move it away, or make both again.")
    return told, text[max(text.find("`jaxrl evaluate"), 0) :]


def _result(game: str, row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of an evaluation as a result of a model card: wins in %, with their 95 % interval in the name."""
    low, high = wilson(row["wins"], row["games"], Design(row.get("design_effect", 1.0)))
    name = f"wins in %, 95 % from {100 * low:.1f} to {100 * high:.1f}, of {row['games']:,} games"
    metric = {"type": "win_rate", "name": name, "value": round(100 * row["wins"] / row["games"], 2), "verified": False}
    data = {"name": f"{game} against {row['opponent']}", "type": game}
    return {"task": {"type": TASK, "name": TASK}, "dataset": data, "metrics": [metric]}
