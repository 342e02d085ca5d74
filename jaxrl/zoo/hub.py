"""Policies on the Hugging Face hub: `hf:USER/REPO` wherever a policy is named (extra `hub`).

A repository holds POLICY and CARD. In the head of the card, which is YAML, the section `jaxrl` has the checksum of the
policy file and the hash of the rules of its game. The verified reader of policy files reads it: nothing runs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxrl.version import __version__
from jaxrl.zoo import split_card
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, printable

PREFIX = "hf:"  # "hf:USER/REPO" or "hf:USER/REPO@REVISION"
POLICY, CARD = "policy.jaxrl", "README.md"
NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@((?!.*\.\.)[\w./-]+))?", re.ASCII)
LARGEST = 1 << 31  # bytes, as of policy files
NAMED = f"a policy of the hub is named {PREFIX}USER/REPO, or {PREFIX}USER/REPO@REVISION."
ABSENT = "the hub needs its package: python -m pip install 'jaxrl[hub]'."


@functools.cache
def policy_file(name: str) -> Path:
    """Returns the policy file of "USER/REPO", fetched now or before. Raises UserError: it does not exist, the hub is
    not reached, or the file is not the one that its card describes."""
    file, told = _fetched(name, POLICY), figures(card_file(name), name)
    if hashlib.sha256(files.contents(file, LARGEST)).hexdigest() != told.get("sha256"):
        raise UserError(
            f"{PREFIX}{name} is damaged: {POLICY} has another checksum than its card says; tell its author, or name a "
            f"revision ({PREFIX}USER/REPO@REVISION) in which they agree."
        )
    here = registry.rules_hash(str(told.get("game")))
    if here and told.get("rules") not in ("", None, here):
        game = printable(str(told.get("game")))
        print(
            f"{PREFIX}{name}: the sources of {game} have changed since it was trained: measure it again.",
            file=sys.stderr,
        )
    return file


@functools.cache
def card_file(name: str) -> Path:
    """Returns the card of "USER/REPO". Errors as of `policy_file`."""
    return _fetched(name, CARD)


def stem(name: str) -> str:
    """Returns "REPO" of "USER/REPO@REVISION"."""
    return name.partition("@")[0].rpartition("/")[2]


def figures(card: Path, name: str) -> dict[str, Any]:
    """Returns the section `jaxrl` in the head of a card. Raises UserError without one."""
    text = files.contents(card, files.BY_HAND).decode("utf-8", "replace")
    found = split_card(text, f"the card of {PREFIX}{name}")[0].get("jaxrl")
    if not isinstance(found, dict):
        raise UserError(f"{PREFIX}{name} holds no policy of jaxrl: its card has no section `jaxrl`.")
    return found


def push(name: str, policy: bytes, card: str) -> str:
    """Makes the repository if it does not exist, and commits a policy file and its card; returns the address. Raises
    UserError: the hub refuses, or is not reached."""
    repository, revision = _parts(name)
    with _told(name):
        from huggingface_hub import CommitOperationAdd

        api = _api()
        api.create_repo(repository, exist_ok=True)
        parts = [CommitOperationAdd(CARD, card.encode()), CommitOperationAdd(POLICY, policy)]
        message = f"Policy of {stem(name)}"
        return str(api.create_commit(repository, parts, commit_message=message, revision=revision).commit_url)


def _fetched(name: str, file: str) -> Path:
    """Returns a file of a repository, of the cache where the hub is not reached: without the package's half a minute of
    further tries, and not if it is too large."""
    repository, revision = _parts(name)
    with _told(name):
        from huggingface_hub import errors, hf_hub_url

        api, size = _api(), 0
        try:
            url = hf_hub_url(repository, file, revision=revision, endpoint=api.endpoint)
            size = api.get_hf_file_metadata(url=url).size or 0
        except errors.HfHubHTTPError:
            raise
        except (errors.HTTPError, errors.OfflineModeIsEnabled):
            size = -1
        if size > (most := LARGEST if file == POLICY else files.BY_HAND):
            raise UserError(f"{PREFIX}{name}: {file} has more than {most >> 20} MB: it is no policy of jaxrl.")
        return Path(api.hf_hub_download(repository, file, revision=revision, local_files_only=size < 0))


def _parts(name: str) -> tuple[str, str | None]:
    """Returns repository and revision. Raises UserError for another name."""
    if (found := NAME.fullmatch(name)) is None:
        raise UserError(f"{PREFIX}{name}: {NAMED}")
    return found[1], found[2]


def _api() -> Any:
    from huggingface_hub import HfApi, utils

    utils.disable_progress_bars()
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, library_name="jaxrl", library_version=__version__)


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """Turns what the hub's package raises into a sentence."""
    try:
        from huggingface_hub import errors
    except ImportError:
        raise UserError(ABSENT) from None
    whole = f"{PREFIX}{name}"
    try:
        yield
    except errors.HFValidationError:
        raise UserError(f"{whole}: {NAMED}") from None
    except errors.RevisionNotFoundError:
        raise UserError(f"{whole}: the repository has no such revision: look at its commits.") from None
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"there is no {whole}, or it is private or asks for a login: check the name, or log in (hf auth login)."
        ) from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        raise UserError(f"{whole} is not here, and the hub is not reached: go online, or name a file.") from None
    except errors.EntryNotFoundError:
        raise UserError(f"{whole} holds no policy of jaxrl: it has not both {POLICY} and {CARD}.") from None
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", 0)
        advice = (
            "log in with a token that may write there (hf auth login)" if status in (401, 403) else "try again later"
        )
        raise UserError(f"{whole}: the hub refuses (status {status}): {advice}.") from None
    except errors.HTTPError as error:
        raise UserError(
            f"{whole}: the hub is not reached ({type(error).__name__}): go online, or name a file."
        ) from None
    except OSError as error:
        raise UserError(f"{whole} cannot be kept in the hub's cache: {error.strerror or error}.") from None
