"""The files under examples/cluster parse, and all names in them exist. No image is built and no cluster started."""

from __future__ import annotations

import re
import subprocess
import tomllib
from types import SimpleNamespace

import pytest
import yaml

from jaxrl import config as configs
from tests.support.paths import ROOT

CLUSTER = ROOT / "examples" / "cluster"
INSTRUCTIONS = {"FROM", "ARG", "RUN", "WORKDIR", "COPY", "ENV", "ENTRYPOINT"}


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.forge"])
def test_a_dockerfile_names_what_exists(name):
    lines = [line for line in (CLUSTER / name).read_text().splitlines() if line and not line.startswith("#")]
    assert {line.split()[0] for line in lines} <= INSTRUCTIONS and lines[0].startswith("FROM ")
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    told = re.findall(r"EXTRAS=([\w,]+)", (CLUSTER / name).read_text())
    assert all(set(each.split(",")) <= extras for each in told)
    for line in lines:
        if line.startswith("RUN "):
            subprocess.run(["bash", "-n", "-c", line.removeprefix("RUN ")], check=True)


def test_the_clusters_start_a_head_and_join_it():
    compose = yaml.safe_load((CLUSTER / "compose.yaml").read_text())
    assert set(compose["services"]) == {"head", "worker"}
    for service in compose["services"].values():
        assert (CLUSTER / service["build"]["context"] / service["build"]["dockerfile"]).resolve().is_file()
        assert service["entrypoint"][:2] == ["ray", "start"] and "--block" in service["entrypoint"]
    cluster = yaml.safe_load((CLUSTER / "kuberay.yaml").read_text())
    assert cluster["kind"] == "RayCluster"
    games = cluster["spec"]["workerGroupSpecs"][0]
    assert games["minReplicas"] <= games["replicas"] <= games["maxReplicas"]


def test_trainings_in_them_and_in_the_docs_fit_their_presets():
    subprocess.run(["bash", "-n", str(CLUSTER / "slurm.sh")], check=True)
    found = 0
    for path in (*CLUSTER.iterdir(), ROOT / "docs" / "operations" / "many_machines.md"):
        text = path.read_text().replace("\\\n", " ").replace('"', "")
        text = text.replace("$SLURM_JOB_NUM_NODES", "4").replace("$SLURM_CPUS_PER_TASK", "16").replace("$head", "head")
        for command in re.findall(r"jaxrl train [^#\n`]*fleet.workers=[^#\n`]*", text):
            preset = re.search(r"--config (\w+)", command)
            config = configs.load(preset[1] if preset else "battle_balance", re.findall(r"[\w.]+=\S+", command))
            host = SimpleNamespace(host=True)
            config.sebulba.check_game(config, host)
            config.fleet.check_game(config, host)
            found += 1
    assert found >= 4
