"""Settings that precede the start of jax's backend: XLA flags and glibc's memory. The user's own settings win."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxrl.config import Config
from jaxrl.runs.config import device_count
from jaxrl_envs.shared import resources
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.resources import cores

if TYPE_CHECKING:
    from jax.stages import Compiled, Lowered

_ACCELERATOR_PACKAGES = ("jax_cuda12_plugin", "jax_cuda13_plugin", "libtpu", "jax_rocm7_plugin", "jax_rocm60_plugin")

_KEPT = ((-3, 2**31 - 1), (-1, 2**31 - 1), (-2, 2**24))  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD: bytes

# The least that the smallest training needs; with less, jax aborts the process or a checkpoint fails in its middle.
ADDRESS_SPACE = 2 << 30  # bytes
OPEN_FILES = 32


def check_limits() -> None:
    """Raises UserError if the limits of the shell leave jax too little address space or too few open files."""
    space, files = resources.address_space(), resources.open_files()
    if space is not None and space < ADDRESS_SPACE:
        raise UserError(
            f"this shell gives a process {space / 2**30:.2g} GiB of address space, and jax alone needs "
            f"{ADDRESS_SPACE >> 30}: raise the limit (ulimit -v)."
        )
    if files is not None and files < OPEN_FILES:
        raise UserError(
            f"this shell lets a process open {files} files, and jaxrl needs {OPEN_FILES}: raise the limit (ulimit -n)."
        )


def only_compiles_for_gpus() -> bool:
    """Returns whether jax has a plugin for NVIDIA GPUs alone, and this machine has none: the extra `gpu-compiler`."""
    plugins = _plugins()
    if not plugins or not plugins <= set(_ACCELERATOR_PACKAGES[:2]) or any(Path("/dev").glob("nvidia*")):
        return False
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) != 0  # the driver, which also knows GPUs that are no such file
    except OSError:
        return True


def prepare_platform() -> None:
    """Chooses the CPU where `only_compiles_for_gpus`; before jax is imported. The plugin would write a traceback
    about libraries that it misses, and jax would take the CPU after all."""
    if not os.environ.get("JAX_PLATFORMS") and only_compiles_for_gpus():
        os.environ["JAX_PLATFORMS"] = "cpu"


def _plugins() -> set[str]:
    """Returns the packages by which jax would find an accelerator."""
    return {name for name in _ACCELERATOR_PACKAGES if importlib.util.find_spec(name) is not None}


def on_cpu() -> bool:
    """Returns whether jax will run on the CPU, as far as can be found out without starting it."""
    chosen = os.environ.get("JAX_PLATFORMS", "").lower()
    if chosen:
        return chosen.split(",")[0] == "cpu"
    hardware = any(Path(path).exists() for path in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/accel0", "/dev/kfd"))
    return not (_plugins() and hardware)


def conditions() -> dict[str, Any]:
    """Returns what the bits of a training depend on beside its configuration and the sources: versions, devices, the
    processor's vectors, and XLA's flags but those that name a place."""
    import jax
    import jaxlib

    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if "/" not in flag]
    versions = {"jax": jax.__version__, "jaxlib": jaxlib.__version__}
    devices = {"backend": jax.default_backend(), "devices": jax.device_count(), "vectors": resources.vector_width()}
    return versions | devices | {"xla_flags": " ".join(sorted(flags))}


def set_devices(devices: int, deterministic: bool = False) -> None:
    """Adds to ``XLA_FLAGS``; has no effect once jax has started its backend.

    Args:
      devices: virtual CPU devices to make, so that several cores share the work of one program; nothing on a GPU.
      deterministic: whether an accelerator uses only algorithms that give the same bits every time (slower).
    """
    if on_cpu():
        add_flag("xla_force_host_platform_device_count", str(max(devices, 1)))
    elif deterministic:
        add_flag("xla_gpu_deterministic_ops", "true")


def prepare_training(config: Config, processes: int = 1) -> None:
    """Prepares this process to train a configuration: `set_devices` and `keep_memory`; before anything is computed."""
    there = config.run.devices or processes * cores()
    wanted = device_count(config, there, processes) if on_cpu() else processes
    set_devices(wanted // processes, config.run.deterministic)
    keep_memory()


def prepare_gpu_compiler() -> None:
    """Prepares this process to compile for a GPU that is absent; before jax is imported.

    Without the GPU nothing can be tried out, so XLA chooses no kernels by timing them, and matrix products are calls of
    cuBLAS: Triton's need that choice. `ptxas` is found in its Python package unless it is on the PATH.

    Raises:
      UserError: the compiler is not installed.
    """
    cuda = importlib.util.find_spec("nvidia.cuda_nvcc") if importlib.util.find_spec("nvidia") else None
    places = list(cuda.submodule_search_locations or ()) if cuda else []
    if not _plugins() & set(_ACCELERATOR_PACKAGES[:2]) or not (places or shutil.which("ptxas")):
        raise UserError("compiling for a GPU needs its compiler (and no GPU): pip install 'jaxrl[gpu-compiler]'.")
    if not shutil.which("ptxas"):
        os.environ["PATH"] = os.pathsep.join([str(Path(places[0]) / "bin"), os.environ.get("PATH", "")])
        add_flag("xla_gpu_cuda_data_dir", places[0])
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")  # it asks for the driver
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    add_flag("xla_gpu_autotune_level", "0")
    add_flag("xla_gpu_enable_triton_gemm", "false")


def keep_memory() -> bool:
    """Makes glibc keep the memory of large arrays for the next ones, on a CPU. Returns whether it does.

    Otherwise it gives them back to the system at every step, and the next step meets pages that have to be filled with
    zeros first. Older versions of glibc refuse; the environment's MALLOC_... and GLIBC_TUNABLES win; other C libraries
    are left alone.
    """
    if not on_cpu() or any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return all(mallopt(*each) == 1 for each in _KEPT)  # without the first, the others would do harm


def trim_memory() -> None:
    """Gives the memory that glibc keeps for later back to the system: compiling one search leaves 300 MB of it."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def prepare_game(id: str) -> None:
    """Adds to ``XLA_FLAGS`` what a game asks for; before anything is computed.

    On a CPU: to fuse operations with several outputs each. A game step is hundreds of small operations with many
    results; fused like this Skull King compiles three times and runs up to fifty times faster. XLA aborts the process
    while compiling some other games, so a game has to ask for it (`Env.multi_output_fusion`).
    """
    from jaxrl_envs.contract import registry  # here, because it imports jax

    if on_cpu() and getattr(registry.game_class(id), "multi_output_fusion", False):
        fuse()


def fuse() -> None:
    """Adds the flag of `prepare_game` to ``XLA_FLAGS``."""
    add_flag("xla_backend_extra_options", "xla_cpu_use_multi_output_fusion")


def plain_options() -> dict[str, str]:
    """Options of one program that is compiled without what `prepare_game` adds, for `jax.jit(compiler_options=...)`.

    XLA's CPU backend aborts the process while compiling some searches with multi-output fusion.
    """
    return {"xla_backend_extra_options": ""} if on_cpu() else {}


def quick_options() -> dict[str, str | bool]:
    """Options of one program that runs once, so that XLA compiles it fast instead of well: unoptimised, by its older
    emitters. On a CPU, and not over an optimisation level of the user's own. For `compile_quickly`."""
    name = "xla_backend_optimization_level"
    quick = on_cpu() and f"--{name}" not in os.environ.get("XLA_FLAGS", "")
    return {name: "0", "xla_cpu_use_fusion_emitters": False} if quick else {}


def compile_quickly(program: Lowered) -> Compiled:
    """Compiles with the `quick_options` that this version of XLA knows; it refuses others."""
    from jax.errors import JaxRuntimeError

    options = quick_options()
    while True:
        try:
            return program.compile(compiler_options=options)
        except JaxRuntimeError as error:
            known = {name: value for name, value in options.items() if f"'{name}'" not in str(error)}
            if len(known) == len(options):
                raise
            options = known


def add_flag(name: str, value: str) -> None:
    """Adds a flag to ``XLA_FLAGS``, unless it is there."""
    flags = os.environ.get("XLA_FLAGS", "")
    if f"--{name}" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{name}={value}".strip()
