"""Several processes that train together (`jax.distributed`): what knows of them is here, everything else asks.

All of them run the same program on the same numbers, so they come to the same decisions after the same update; process
0 alone writes and talks. What only one can know, such as a file or a signal, is made common by `agreed` and `largest`.
With one process every function does what jax does without it.
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
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from jaxrl.runs.heartbeat import BEAT, LOST, SILENT, Watch, leave_at_once
from jaxrl_envs.shared.errors import UserError

PyTree = Any
T = TypeVar("T")

HEARTBEAT = 50  # the same for jax itself, which aborts all processes: only if nobody here has said why before
LONG = 24 * 3600 * 1000  # milliseconds to wait for another process; if it dies meanwhile, this one ends too
USER_ERROR = 2  # exit code of a mistake of the user
_TRANSPORT = ("gloo", "nccl", "rccl", "connection closed", "connection reset", "unavailable")


class Told(SystemExit):
    """The end of a process because of what another one tells."""


class Group(NamedTuple):
    """The processes, as one of them sees them."""

    rank: int
    size: int
    client: Any  # of jax's coordination service, which all of them share
    numbers: Any  # of what was agreed on, 0, 1, ...
    watch: Watch


_groups: list[Group] = []  # none, or the one that this process has joined


def join(coordinator: str | None, processes: int | None, rank: int | None) -> None:
    """Joins the others, before anything is computed; waits for all of them.

    Args:
      coordinator: HOST:PORT of process 0; None: jax finds all three in the environment (Slurm, Open MPI, Kubernetes).
      processes: how many there are.
      rank: the number of this one.

    Raises:
      UserError: some are given and some are not, or one of them is wrong, or jax finds none.
    """
    _check_given(coordinator, processes, rank)
    more: dict[str, Any] = {}
    if coordinator is not None:  # nothing listens but at the address that was told
        more = {"cluster_detection_method": "deactivate", "coordinator_bind_address": coordinator}
    with contextlib.suppress(AttributeError):  # a jax without it; it would take SIGTERM from us, who save and stop then
        jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator, processes, rank, heartbeat_timeout_seconds=HEARTBEAT, shutdown_timeout_seconds=60, **more
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
    watch = Watch(state.client, state.process_id, state.num_processes)
    _groups.append(Group(state.process_id, state.num_processes, state.client, itertools.count(), watch))
    watch.start()
    if not leads():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # standard output, of libraries too


def _check_given(coordinator: str | None, processes: int | None, rank: int | None) -> None:
    """Raises UserError unless nothing is given, or all of it and well."""
    given = [each is not None for each in (coordinator, processes, rank)]
    if any(given) and not all(given):
        raise UserError("--coordinator, --processes and --rank belong together: give all three or none.")
    if coordinator is None or processes is None or rank is None:
        return
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise UserError(f"--coordinator must be HOST:PORT, such as 10.0.0.1:1234, got {coordinator!r}.")
    if not 0 <= rank < processes:
        raise UserError(f"--rank {rank} is not one of the --processes {processes}: they count from 0.")


def meet() -> None:
    """Connects the devices of all processes, all at once: gloo gives up on who is 30 seconds late for the first
    collective, and for that alone. Starts jax's backend."""
    if _groups:
        _groups[0].client.wait_at_barrier("jaxrl/met", LONG)
        largest(0)


def count() -> int:
    """How many processes there are."""
    return _groups[0].size if _groups else 1


def rank() -> int:
    """The number of this one."""
    return _groups[0].rank if _groups else 0


def leads() -> bool:
    """Whether this is the process that writes and talks."""
    return rank() == 0


# ---- what all of them know ------------------------------------------------------------------------------------------


def agreed(find: Callable[[], T]) -> T:
    """What `find` gives in process 0, something for JSON; the others do not call it.

    Raises:
      UserError: `find` has raised it; the others end.
    """
    if not _groups:
        return find()
    name = f"agreed/{next(_groups[0].numbers)}"
    if leads():
        try:
            post(name, json.dumps({"value": find()}))
        except UserError as error:
            post(name, json.dumps({"error": str(error)}))
            raise
    told = json.loads(wait_for(name))
    if "error" in told:
        raise Told(USER_ERROR)
    value: T = told["value"]
    return value


def check_alike(things: Mapping[str, str]) -> None:
    """Compares texts that have to be the same in all processes, by digest.

    Args:
      things: what it is, as the sentence calls it -> its text.

    Raises:
      UserError: another process has another one; the others end.
    """
    if not _groups:
        return
    own = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in things.items()}
    name = f"alike/{next(_groups[0].numbers)}"
    post(f"{name}/{rank()}", json.dumps(own))

    def compare() -> None:
        for other in range(1, count()):
            found = json.loads(wait_for(f"{name}/{other}"))
            if differs := [each for each in own if own[each] != found.get(each)]:
                raise UserError(
                    f"process {other} has another {differs[0]} than process 0: start all of them with the same "
                    "command, files and version of jaxrl."
                )

    agreed(compare)


@contextlib.contextmanager
def led(enter: Callable[[], contextlib.AbstractContextManager[Any]]) -> Iterator[None]:
    """A context that process 0 alone enters, before the others go on.

    Raises:
      UserError: see `agreed`.
    """
    with contextlib.ExitStack() as stack:
        agreed(lambda: stack.enter_context(enter()) and None)
        yield


def post(name: str, text: str) -> None:
    """Tells the others something, once for every name."""
    _groups[0].client.key_value_set(f"jaxrl/{name}", text)


def wait_for(name: str) -> str:
    """What somebody has posted, or will."""
    return str(_groups[0].client.blocking_key_value_get(f"jaxrl/{name}", LONG))


@contextlib.contextmanager
def told(name: str) -> Iterator[None]:
    """Tells the others whether the block has ended well, see `wait_told`."""
    if not _groups:
        yield
        return
    try:
        yield
    except BaseException as error:
        post(name, str(error) or type(error).__name__)
        raise
    post(name, "")


def wait_told(name: str) -> None:
    """Waits until a block of process 0 has ended; where it has not ended well, so does this process."""
    if wait_for(name):
        raise Told(USER_ERROR)


def forget(name: str) -> None:
    """Drops what was posted under `name` and below it, which everybody has read."""
    _groups[0].client.key_value_delete(f"jaxrl/{name}")


def largest(number: int) -> int:
    """The largest of the numbers (i32) that the processes give here."""
    if not _groups:
        return int(number)
    sharding, find = _over_all()
    one = np.array([number], np.int32)
    return int(find(jax.make_array_from_callback((jax.device_count(),), sharding, lambda _: one)))


def all_well(error: Exception | None) -> None:
    """Goes on only where nothing went wrong in any process.

    Raises:
      Exception: `error`, what went wrong here.
      Told: something went wrong elsewhere, which the process where it did tells.
    """
    if largest(error is not None):
        raise error or Told(USER_ERROR)


@functools.cache
def _over_all() -> tuple[Any, Any]:
    """One number for each device of all processes, and what finds the largest."""
    mesh = Mesh(jax.devices(), ("device",))
    find = jax.jit(lambda numbers: numbers.max(), out_shardings=NamedSharding(mesh, Spec()))
    return NamedSharding(mesh, Spec("device")), find


# ---- arrays ---------------------------------------------------------------------------------------------------------


def devices(most: int | None = None) -> list[Any]:
    """Devices of all processes, those of process 0 first: `most` of them, equally many of each process."""
    if not _groups:
        return list(jax.local_devices()[:most])
    each = [[device for device in jax.devices() if device.process_index == number] for number in range(count())]
    share = min(map(len, each)) if most is None else most // count()
    return [device for own in each for device in own[:share]]


def place(tree: PyTree, shardings: PyTree) -> PyTree:
    """`jax.device_put`, also onto shardings over several processes; a whole array is the same in all of them."""
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
    if isinstance(leaf, jax.Array):  # between other devices it goes through the host
        leaf = fetch(leaf)
    whole = np.asarray(leaf, getattr(leaf, "dtype", None) or jax.numpy.result_type(leaf))
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


@functools.cache
def _mover(sharding: Any) -> Any:
    """Moves an array; compiled once for each shape."""
    return jax.jit(lambda array: array, out_shardings=sharding)


@functools.cache
def _wrapper(impl: Any, sharding: Any) -> Any:
    """Typed keys from their data."""
    return jax.jit(functools.partial(jax.random.wrap_key_data, impl=impl), out_shardings=sharding)


def spread(tree: PyTree, sharding: Any) -> PyTree:
    """Arrays of which every process has its own share, as `sharding` deals them out; with one process `place`."""
    if not _groups:
        return jax.device_put(tree, sharding)
    return jax.tree.map(lambda leaf: jax.make_array_from_process_local_data(sharding, leaf), tree)


def local(tree: PyTree, device: Any) -> PyTree:
    """Arrays that are whole in every process, on a device of this one: what is computed with them is its own affair."""
    if _groups:
        tree = jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)
    return jax.device_put(tree, device)


def spread_axis(leaf: Any) -> int | None:
    """Which axis of an array is spread over processes; None: it is whole in each."""
    if not _groups or not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated:
        return None
    assert isinstance(leaf.sharding, NamedSharding)
    return next(axis for axis, name in enumerate(leaf.sharding.spec) if name is not None)


def own_share(leaf: Any) -> Any:
    """An array as it is, or what this process has of one that is spread."""
    axis = spread_axis(leaf)
    if axis is None:
        return leaf
    shards = sorted(leaf.addressable_shards, key=lambda shard: shard.index[axis].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards], axis=axis)


def fetch(tree: PyTree) -> PyTree:
    """`jax.device_get`, also of arrays that are spread over several processes: whole, in all of them."""

    def whole(leaf: Any) -> Any:
        if spread_axis(leaf) is None:
            return leaf
        return _mover(NamedSharding(leaf.sharding.mesh, Spec()))(leaf)

    return jax.device_get(jax.tree.map(whole, tree) if _groups else tree)


# ---- the end --------------------------------------------------------------------------------------------------------


def ended(run: Callable[[], int]) -> int:
    """The exit code of `run`. Processes leave together, or at once where something is wrong: no other can go on."""
    try:
        code = run()
    except BaseException as error:
        if not _groups:
            raise
        if any(word in str(error).lower() for word in _TRANSPORT):
            time.sleep(SILENT + 4 * BEAT)  # another one has gone: the watch says which, and ends this process
        if not isinstance(error, Told):
            traceback.print_exception(error)
        code = USER_ERROR if isinstance(error, Told) else 1
    if _groups:
        _leave(code)
    return code


def stopped_together() -> None:
    """From now on this process waits for the others as at its end: all of them have stopped after the same update."""
    if _groups:
        _groups[0].watch.stopped = True


def at_loss(farewell: Callable[[str], None]) -> None:
    """What to call with a sentence before this process leaves because another one is gone; the last one given holds."""
    if _groups:
        _groups[0].watch.farewell = farewell


def _leave(code: int) -> None:
    """Waits for the others, who come here too unless something is wrong."""
    group = _groups[0]
    well = code == 0 or group.watch.stopped
    # At the end process 0 still writes replays, however long; who waits for it is ended by the watch if it dies.
    name, most = ("well", 60_000 if code else LONG) if well else ("wrong", 5000)
    try:
        group.client.wait_at_barrier(f"jaxrl/{name}", most)
        group.watch.done.set()
        if well:
            jax.distributed.shutdown()
            return
    except jax.errors.JaxRuntimeError:  # whoever has gone before has said why
        if well:
            code = LOST
            group.watch.part(f"another of the {group.size} processes has died or hangs")
    if leads():  # last: jax aborts whoever still is there when the one that keeps its service is gone
        time.sleep(1.0)
    leave_at_once(code)
