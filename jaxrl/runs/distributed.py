"""Training in several processes (`jax.distributed`): joining, agreeing, placing arrays, and leaving together.

All processes run the same program on the same numbers, so they decide alike after the same update; process 0 alone
writes and prints. What only one process can know, such as a file or a signal, is shared by `broadcast` and `maximum`.
With one process every function does what jax does without it.

Numbers go through `jax.experimental.multihost_utils`. Texts go through the key-value store of jax's coordination
service: a collective such as `broadcast_one_to_all` needs the devices, a shape known to all, and processes that reach
it within seconds of each other (gloo gives up after 30), and it has no way to say that process 0 failed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax._src import distributed  # the coordination service has no public name
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding

from jaxrl.runs.heartbeat import BEAT, LOST, SILENT, Heartbeat, exit_now
from jaxrl.runs.logs.console import console
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

PyTree = Any
T = TypeVar("T")

JAX_HEARTBEAT = 50  # seconds until jax itself aborts all processes, unless `Heartbeat` has said why before
LONG = 24 * 3600 * 1000  # milliseconds to wait for another process; if it dies meanwhile, this one ends too
USER_ERROR = 2  # exit code of a mistake of the user


class PeerFailed(SystemExit):
    """Another process has failed, and has said why; this one ends too."""


class Group(NamedTuple):
    """The processes, as one of them sees them."""

    rank: int
    size: int
    client: Any  # of jax's coordination service, which all processes share
    numbers: Any  # of broadcasts: 0, 1, ...
    heartbeat: Heartbeat


_groups: list[Group] = []  # empty, or the one group that this process has joined


def join(coordinator: str | None, processes: int | None, rank: int | None) -> None:
    """Joins the other processes and waits for all of them; must run before anything is computed.

    Args:
      coordinator: HOST:PORT of process 0; None: jax finds all three in the environment (Slurm, Open MPI, Kubernetes).
      processes: number of processes.
      rank: the number of this process.

    Raises:
      UserError: only some of the three are given, one of them is wrong, or jax finds nothing in the environment.
    """
    _check_given(coordinator, processes, rank)
    more: dict[str, Any] = {}
    if coordinator is not None:  # listen only at the given address
        more = {"cluster_detection_method": "deactivate", "coordinator_bind_address": coordinator}
    with contextlib.suppress(AttributeError):  # older versions of jax; the service would take SIGTERM, on which we save
        jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator, processes, rank, heartbeat_timeout_seconds=JAX_HEARTBEAT, shutdown_timeout_seconds=60, **more
        )
    except (ValueError, RuntimeError, TypeError) as error:
        why = (str(error).splitlines() or [repr(error)])[0]
        raise UserError(
            f"the processes cannot be joined ({why}): give --coordinator HOST:PORT, --processes N and --rank R, or "
            "start under Slurm, Open MPI or Kubernetes."
        ) from error
    state = distributed.global_state
    if state.num_processes == 1:
        return
    heartbeat = Heartbeat(state.client, state.process_id, state.num_processes)
    _groups.append(Group(state.process_id, state.num_processes, state.client, itertools.count(), heartbeat))
    heartbeat.start()
    if not is_rank0():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # standard output, of libraries too
        console().quiet = True


def _check_given(coordinator: str | None, processes: int | None, rank: int | None) -> None:
    """Raises UserError unless all three are given and valid, or none is."""
    given = [each is not None for each in (coordinator, processes, rank)]
    if any(given) and not all(given):
        raise UserError("--coordinator, --processes and --rank belong together: give all three or none.")
    if coordinator is None or processes is None or rank is None:
        return
    host, _, port = coordinator.rpartition(":")
    if not host or not 0 < (files.number(port) or 0) < 1 << 16:
        raise UserError(f"--coordinator must be HOST:PORT, such as 10.0.0.1:1234, got {coordinator!r}.")
    if not 0 <= rank < processes:
        raise UserError(f"--rank {rank} is not one of the --processes {processes}: they count from 0.")


def connect_devices() -> None:
    """Starts jax's backend and connects the devices of all processes.

    The barrier comes first because gloo gives up if a process is 30 seconds late for the first collective.
    """
    if _groups:
        _groups[0].client.wait_at_barrier("jaxrl/connect", LONG)
        multihost_utils.sync_global_devices("jaxrl")


def count() -> int:
    """Returns the number of processes."""
    return _groups[0].size if _groups else 1


def rank() -> int:
    """Returns the number of this process."""
    return _groups[0].rank if _groups else 0


def is_rank0() -> bool:
    """Returns whether this is the process that writes and prints."""
    return rank() == 0


# ---- agreement ------------------------------------------------------------------------------------------------------


def broadcast(find: Callable[[], T]) -> T:
    """Broadcasts the result (JSON-able) of `find` in process 0; other processes do not call it.

    Raises:
      UserError: in process 0, if `find` raised it.
      PeerFailed: in the other processes, if so.
    """
    if not _groups:
        return find()
    name = f"broadcast/{next(_groups[0].numbers)}"
    if is_rank0():
        try:
            post(name, json.dumps({"value": find()}))
        except UserError as error:
            post(name, json.dumps({"error": str(error)}))
            raise
    found = json.loads(wait_for(name))
    if "error" in found:
        raise PeerFailed(USER_ERROR)
    value: T = found["value"]
    return value


def check_equal(texts: Mapping[str, str]) -> None:
    """Checks that texts are the same in all processes, by their SHA-256.

    Args:
      texts: texts by the names that the error message calls them.

    Raises:
      UserError: in process 0, if another process has another text; the others raise PeerFailed.
    """
    if not _groups:
        return
    own = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    name = f"equal/{next(_groups[0].numbers)}"
    post(f"{name}/{rank()}", json.dumps(own))

    def compare() -> None:
        for other in range(1, count()):
            found = json.loads(wait_for(f"{name}/{other}"))
            if differs := [each for each in own if own[each] != found.get(each)]:
                raise UserError(
                    f"process {other} has another {differs[0]} than process 0: start all of them with the same "
                    "command, files and version of jaxrl."
                )

    broadcast(compare)


@contextlib.contextmanager
def on_rank0(enter: Callable[[], contextlib.AbstractContextManager[Any]]) -> Iterator[None]:
    """Enters a context in process 0 alone, before the others continue. Errors as of `broadcast`."""
    with contextlib.ExitStack() as stack:
        broadcast(lambda: stack.enter_context(enter()) and None)
        yield


def post(name: str, text: str) -> None:
    """Publishes a text under a name, which may be used once."""
    _groups[0].client.key_value_set(f"jaxrl/{name}", text)


def wait_for(name: str) -> str:
    """Waits for the text that is posted under a name, and returns it."""
    return str(_groups[0].client.blocking_key_value_get(f"jaxrl/{name}", LONG))


@contextlib.contextmanager
def broadcast_result(name: str) -> Iterator[None]:
    """Publishes whether the block succeeded, for `await_result` in the other processes."""
    if not _groups:
        yield
        return
    try:
        yield
    except BaseException as error:
        post(name, str(error) or type(error).__name__)
        raise
    post(name, "")


def await_result(name: str) -> None:
    """Waits for the end of a `broadcast_result` block. Raises PeerFailed if the block failed."""
    if wait_for(name):
        raise PeerFailed(USER_ERROR)


def forget(name: str) -> None:
    """Deletes what was posted under `name` and below it, once every process has read it."""
    _groups[0].client.key_value_delete(f"jaxrl/{name}")


def maximum(number: int) -> int:
    """Returns the largest of the numbers (i32) that the processes pass here."""
    if not _groups:
        return int(number)
    largest = int(multihost_utils.process_allgather(np.int32(number)).max())
    if is_rank0():
        forget("broadcast")  # every process has come here, so it has read what was broadcast before
    return largest


def raise_together(error: Exception | None) -> None:
    """Raises in all processes if one of them passes an error.

    Raises:
      Exception: `error`, what failed here.
      PeerFailed: another process failed, and reports it itself.
    """
    if maximum(error is not None):
        raise error or PeerFailed(USER_ERROR)


# ---- arrays ---------------------------------------------------------------------------------------------------------


def devices(most: int | None = None) -> list[Any]:
    """Returns the devices of all processes, those of process 0 first: at most `most`, equally many of each process."""
    if not _groups:
        return list(jax.local_devices()[:most])
    each = [[device for device in jax.devices() if device.process_index == number] for number in range(count())]
    share = min(map(len, each)) if most is None else most // count()
    return [device for own in each for device in own[:share]]


def place(tree: PyTree, shardings: PyTree) -> PyTree:
    """Places arrays by `jax.device_put`, or onto shardings over processes; a host array is the same in all of them."""
    if not _groups:
        return jax.device_put(tree, shardings)
    return jax.tree.map(
        lambda sharding, part: jax.tree.map(lambda leaf: _placed(leaf, sharding), part), shardings, tree
    )


def _placed(leaf: Any, sharding: Any) -> Any:
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        if leaf.sharding == sharding:
            return leaf
        if leaf.sharding.device_set == sharding.device_set:
            return _mover(sharding)(leaf)
    if jax.dtypes.issubdtype(getattr(leaf, "dtype", np.int32), jax.dtypes.prng_key):
        return _wrapper(jax.random.key_impl(leaf), sharding)(_placed(jax.random.key_data(leaf), sharding))
    if isinstance(leaf, jax.Array):  # onto other devices, by way of the host
        leaf = fetch(leaf)
    whole = np.asarray(leaf, getattr(leaf, "dtype", None) or jax.numpy.result_type(leaf))
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


@functools.cache
def _mover(sharding: Any) -> Any:
    """Moves an array between shardings; compiled once for each shape."""
    return jax.jit(lambda array: array, out_shardings=sharding)


@functools.cache
def _wrapper(impl: Any, sharding: Any) -> Any:
    """Makes typed keys from their data."""
    return jax.jit(functools.partial(jax.random.wrap_key_data, impl=impl), out_shardings=sharding)


def shard(tree: PyTree, sharding: Any) -> PyTree:
    """Makes global arrays of the part that each process has, divided as `sharding` says; with one process `place`."""
    if not _groups:
        return jax.device_put(tree, sharding)
    return jax.tree.map(lambda leaf: jax.make_array_from_process_local_data(sharding, leaf), tree)


def local(tree: PyTree, device: Any) -> PyTree:
    """Copies replicated arrays to a device of this process, for computations of this process alone."""
    if _groups:
        tree = jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
    return jax.device_put(tree, device)


def sharded_axis(leaf: Any) -> int | None:
    """Returns the axis along which an array is sharded over processes; None if each process has all of it."""
    if not _groups or not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated:
        return None
    assert isinstance(leaf.sharding, NamedSharding)
    return next(axis for axis, name in enumerate(leaf.sharding.spec) if name is not None)


def local_part(leaf: Any) -> Any:
    """Returns the part of a sharded array that this process has; other arrays as they are."""
    axis = sharded_axis(leaf)
    if axis is None:
        return leaf
    shards = sorted(leaf.addressable_shards, key=lambda shard: shard.index[axis].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards], axis=axis)


def fetch(tree: PyTree) -> PyTree:
    """Fetches arrays by `jax.device_get`; of those sharded over processes the whole, in every process."""

    def gathered(leaf: Any) -> Any:
        return leaf if sharded_axis(leaf) is None else multihost_utils.process_allgather(leaf, tiled=True)

    return jax.device_get(jax.tree.map(gathered, tree) if _groups else tree)


# ---- the end --------------------------------------------------------------------------------------------------------


def exit_together(run: Callable[[], int]) -> int:
    """Returns the exit code of `run`. Processes leave together, or at once after an error: the others cannot go on."""
    try:
        code = run()
    except BaseException as error:
        if not _groups:
            raise
        if not isinstance(error, PeerFailed):
            if not _groups[0].heartbeat.all_alive():  # a process has gone, whatever this error calls it
                time.sleep(SILENT + 4 * BEAT)  # the heartbeat says which, and ends this process
            traceback.print_exception(error)
        code = USER_ERROR if isinstance(error, PeerFailed) else 1
    if _groups:
        _leave(code)
    return code


def stopped_together() -> None:
    """Notes that all processes have stopped after the same update: from now on this one waits for them to leave."""
    if _groups:
        _groups[0].heartbeat.stopped = True


def on_peer_lost(farewell: Callable[[str], None]) -> None:
    """Sets what is called, with one sentence, before this process leaves because another is gone."""
    if _groups:
        _groups[0].heartbeat.farewell = farewell


def _leave(code: int) -> None:
    """Waits for the other processes, which come here too unless something is wrong."""
    group = _groups[0]
    well = code == 0 or group.heartbeat.stopped
    # At the end process 0 may write replays for a long time; if it dies, the heartbeat ends those that wait for it.
    name, most = ("well", 60_000 if code else LONG) if well else ("wrong", 5000)
    try:
        group.client.wait_at_barrier(f"jaxrl/{name}", most)
        group.heartbeat.done.set()
        if well:
            jax.distributed.shutdown()
            return
    except jax.errors.JaxRuntimeError:  # the process that left first has said why
        if well:
            code = LOST
            group.heartbeat.say_farewell(f"another of the {group.size} processes has died or hangs")
    if is_rank0():  # last, because jax aborts the others when the process that keeps its service is gone
        time.sleep(1.0)
    exit_now(code)
