"""`jaxrl diagnose --gpu CARD`: the reader of compiled modules, cards, budgets, and the compiler."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.diagnose.gpu import compiler, hlo, thunks
from jaxrl.diagnose.gpu.cards import find_card
from jaxrl_envs.shared.errors import UserError
from tests.support.paths import ROOT

LOOPS = Path(__file__).with_name("loops.hlo")
"""A module that XLA compiled for an H100: five rounds of a product, then a loop that ends by data, at the latest after
seven rounds, then a branch."""
BUDGET = ROOT / ".ci" / "gpu_budget.yaml"
ABSENT = importlib.util.find_spec("jax_plugins") is None or importlib.util.find_spec("nvidia") is None


@pytest.fixture(scope="module")
def program():
    return hlo.read(LOOPS.read_text())


def test_loops_and_kernels_of_a_compiled_module(program):
    scan, ending, branch = program.inner
    assert (scan.rounds, scan.by_data, scan.op_name) == (5, False, "jit(f)/rollout/while")
    assert (ending.rounds, ending.by_data, ending.source) == (7, True, "/src/tests/loops.py:10")
    assert scan.own() == {"fusion": 3, "product": 1} and ending.own() == {"fusion": 4}  # two of them its condition
    assert branch.own() == {"sort": 1} and program.branches == 1
    # The host reads the condition once more than the loop has rounds, and the branch's once.
    assert program.count() == {"copy": 3, "fusion": 2 + 5 * 3 + 7 * 4, "product": 5, "sort": 1, "waits": 8 + 1}
    assert hlo.kernels_of(program.count()) == 3 + 45 + 5 + 1
    assert hlo.read(LOOPS.read_text(), bounded=False).inner[1].rounds == 1


THUNKS = """000: kCommandBuffer [source | next=003 (1)]
    001: kCopy         [source | sink] kCopy
    002: kCustomKernel [source | sink] loop_broadcast_fusion grid: [1, 1, 1]
003: kWhile         [prev=000 (1) | sink        ]
condition:
    004: kCustomKernel [source | sink] loop_compare_fusion grid: [1, 1, 1]
  body:
    000: kCommandBuffer  [source       | next=006 (1)]
        005: kCustomKernel [source | sink] loop_add_fusion grid: [1, 1, 1]
        006: kConditional  [source | next=008 (1)]
          true_branch:
            007: kCublasLtMatmul [source | sink] kCublasLtMatmul
    008: kDynamicSliceFusion [prev=000 (1) | sink        ] params=1
        009: kCopy [source | sink] kCopy
    010: kConditional  [source | next=008 (1)]
      true_branch:
        011: kCublasLtMatmul [source | sink] kCublasLtMatmul
"""
FACTS = """thunk_metadata {
  thunk_info {
    profile_annotation: "while.7"
    thunk_id: 3
  }
  thunk_kind: "kWhile"
}
"""


def test_what_cuda_graphs_capture(tmp_path):
    assert thunks.captured(tmp_path) == {}
    (tmp_path / "module_0001.jit_f.thunk_sequence.txt").write_text("0: kCopy")
    (tmp_path / "module_0001.jit_f.thunk_sequence_after_thunk_passes.txt").write_text(THUNKS)
    (tmp_path / "module_0001.jit_f.thunk_metadata.txt").write_text(FACTS)
    found = thunks.captured(tmp_path)
    assert found == {"": thunks.Captured(1, 2, 0, 0), "while.7": thunks.Captured(1, 2, 2, 1)}
    assert str(found["while.7"]) == "2 launches in 1 CUDA graphs, 2 alone, 1 branches that the host decides"


def test_kernels_that_spill(tmp_path, monkeypatch):
    told = (
        "ptxas info : 8 bytes stack frame, {} bytes spill stores, 8 bytes spill loads\nptxas info : Used {} registers"
    )
    for number, (spilled, registers) in enumerate([(0, 40), (16, 255)]):
        (tmp_path / f"{number}.ptx").write_text(f".target sm_90a\n.entry kernel_{number}(\n//{spilled} {registers}")

    def ptxas(command, **_):
        assert command[2] == "-arch=sm_90a"
        facts = Path(command[-1]).read_text().partition("//")[2].split()
        return subprocess.CompletedProcess(command, 0, stderr=told.format(*facts))

    monkeypatch.setattr(thunks.subprocess, "run", ptxas)
    assert thunks.assembled(tmp_path) == [thunks.Assembled("kernel_1", 255, 16), thunks.Assembled("kernel_0", 40, 0)]


def test_cards_by_name_or_by_file(tmp_path):
    names = [find_card(name).name.split()[-1] for name in ("h100", "h200", "rtx4080s", "rtx4090")]
    assert names == ["HBM3", "HBM3e", "SUPER", "4090"]
    file = tmp_path / "card.txtpb"
    file.write_text(find_card("a100").target)
    assert find_card(str(file)) == find_card("a100")
    with pytest.raises(UserError, match="no GPU or file 'h10'"):
        find_card("h10")
    file.write_text("nothing")
    with pytest.raises(UserError, match="core_count"):
        find_card(str(file))


def test_a_budget_names_what_exceeds_it(tmp_path):
    found = {"step": Counter(fusion=20, copy=3, waits=1)}
    file = tmp_path / "budget.yaml"
    file.write_text("game: {step: {kernels: 23, copies: 3, waits: 1}}")
    assert compiler.beyond(file, "game", found) == []
    file.write_text("game: {step: {kernels: 22, waits: 0}, minibatch: {kernels: 40}}")
    assert compiler.beyond(file, "game", found) == [
        "game: kernels of a step: 23, where the budget is 22.",
        "game: waits of a step: 1, where the budget is 0.",
        "game: kernels of a minibatch: not found, where the budget is 40.",
    ]
    for text, message in (("game: {step: {bytes: 1}}", "no figure"), ("game: 3", "no budget"), ("{", "no budget")):
        file.write_text(text)
        with pytest.raises(UserError, match=message):
            compiler.beyond(file, "game", found)
    with pytest.raises(UserError, match="No such file"):
        compiler.beyond(tmp_path / "none.yaml", "game", found)


def test_a_report_names_parts_and_the_costliest_lines(program):
    config = configs.load("skull_king", ["train.num_steps=5"])
    found = compiler.Compiled("training", 12.0, {"arguments": 2_000_000, "temporary": 500_000}, program, updates=1)
    found = found._replace(captured={"step": thunks.Captured(1, 3, 1, 0)}, assembled=[thunks.Assembled("big", 255, 16)])
    assert compiler.parts(found, config) == {"step": Counter(fusion=3, product=1)}
    text = compiler.describe(found, config, find_card("h100"))
    assert "a step: 4 kernels, 0 copies, 0 waits; 3 launches in 1 CUDA graphs, 1 alone" in text
    assert "of the 1 largest kernels: big 16 (255)" in text
    assert "arguments 2.0, temporary 0.5" in text
    assert f"an update of {config.batch_size:,} steps: 54 kernels, 9 waits for the host" in text
    rows = [line.split() for line in text.split("source line")[1].splitlines() if line.startswith("tests/")]
    assert rows[0][:2] == ["tests/loops.py:9", "14"]
    assert sorted(rows, key=lambda row: -int(row[1])) == rows


def test_flags_of_the_user_stay(monkeypatch):
    for name, value in (("XLA_FLAGS", "--xla_gpu_autotune_level=4"), ("PATH", "/mine"), ("TF_CPP_MIN_LOG_LEVEL", "0")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    monkeypatch.setattr(xla.shutil, "which", lambda name: f"/mine/{name}")
    monkeypatch.setattr(xla, "_ACCELERATOR_PACKAGES", ("json",))
    xla.prepare_gpu_compiler()
    assert os.environ["XLA_FLAGS"].split() == ["--xla_gpu_autotune_level=4", "--xla_gpu_enable_triton_gemm=false"]
    assert os.environ["PATH"] == "/mine" and os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
    monkeypatch.setattr(xla, "_ACCELERATOR_PACKAGES", ("no_such_package",))
    with pytest.raises(UserError, match="gpu-compiler"):
        xla.prepare_gpu_compiler()


def test_what_goes_with_a_card(capsys):
    assert cli.main(["diagnose", "--gpu", "--budget", str(BUDGET)]) == 2
    assert "--gpu CARD" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(ABSENT, reason="needs XLA's compiler for GPUs: pip install 'jaxrl[gpu-compiler]'")
@pytest.mark.parametrize("name", ["skull_king", "beasty_bar", "car_soccer"])
def test_presets_keep_their_budget(name):
    """In a process of its own, because flags of the compiler precede jax."""
    command = [sys.executable, "-m", "jaxrl", "diagnose", "--gpu", "h100", "--config", name, "--budget", str(BUDGET)]
    flags = {**os.environ, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}  # not those of the tests
    done = subprocess.run(command, cwd=ROOT, env=flags, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "a step: " in done.stdout and "a minibatch: " in done.stdout
