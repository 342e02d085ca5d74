"""Command lines with a mistake: each ends in one sentence and exit code 2, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from jaxrl import cli
from tests.support.small_runs import NIM

FILES = {
    "empty.yaml": b"",
    "null.yaml": b"# nothing\nnull",
    "above_empty.yaml": b"base: empty.yaml",
    "binary.yaml": bytes(range(256)),
    "text.txt": b"hello",
    "empty.jaxrl": b"",
}
SMALL = "train: {num_envs: 16, num_steps: 4, total_steps: 128, updates_per_call: 1, evaluate_every: 0}\n"

LINES = """
train skull_king_cpu skull_king
train skull_king_cpu train.num_envs={a: 1}
train skull_king_cpu =4
train skull_king_cpu ..=4
train skull_king_cpu train.=4
train skull_king_cpu .train=4
train skull_king_cpu ppo.learning_rate={start: 1e-3, ende: 1}
train skull_king_cpu ppo.optimizer=sgd
train skull_king_cpu ppo.batch_size=1000 ppo.minibatches=3
train skull_king_cpu network.hidden=[] network.kind=recurrent network.recurrent.torso=mlp
train skull_king_cpu network.activation=relu6
train skull_king_cpu network.kind=recurrent network.recurrent.cell=rnn
train beasty_bar network.canonical=true
train skull_king_cpu train.algorithm=a2c
train skull_king_cpu train.algorithm=dqn
train skull_king_cpu env.options.reward=fun
train skull_king_cpu env.id=
train skull_king_cpu evaluate.opponents=hard
train skull_king_cpu evaluate.opponents=[searcher-0]
train skull_king_cpu evaluate.opponents=[searcher-x]
train skull_king_cpu run.logs=some
train skull_king_cpu run.devices=99
train skull_king_cpu callbacks=[nothing:Here]
train skull_king_cpu callbacks=[jaxrl:cli]
train skull_king_cpu base=skull_king
train skull_king_cpu --name a/b
train --config .
train --config /dev/null
train --config empty.yaml
train --config null.yaml
train --config above_empty.yaml
train --config binary.yaml
resume mine@1
resume mine --steps 0
resume mine --steps x
evaluate mine@99
evaluate mine@x
evaluate mine --opponents absent
evaluate mine --opponents nowhere/run
evaluate mine --opponents zoo:nothing
evaluate mine --opponents zoo:skull_king
evaluate mine --deals 1
evaluate mine --search 0
evaluate mine --search-kl 1
evaluate mine --search 8 --search-kl 0
evaluate mine --search 8 --search-sure 2
evaluate mine --search 8 --search-planner maze
evaluate mine --checkpoint 99
evaluate bot:absent --config skull_king
evaluate text.txt
evaluate empty.jaxrl
evaluate .
evaluate mine --out nowhere/deep/file.json
tournament mine mine
tournament mine --anchor absent
tournament mine text.txt
exploit mine --updates 0
exploit mine --checkpoint 99
exploit mine --from nowhere
exploit zoo:skull_king --checkpoint best
exploit empty.jaxrl
distill mine --name wiser
distill mine --name mine --search 8
imitate skull_king_cpu
imitate skull_king_cpu --data nowhere.jsonl
imitate skull_king_cpu --data bot:absent
imitate skull_king_cpu --data bot:hard --games 0
film mine --seat 9
film mine --pace 0
film mine --opponents absent
export mine --seed-index 3
export mine --half --numpy
export text.txt
check skull_king players
check skull_king --only nothing
check nowhere.module:Game
verify skull_king .
check skull_king empty.yaml
check bot:random --train
sweep --config skull_king_cpu --over ppo.clipp=[0.1, 0.2]
sweep --config skull_king_cpu --over ppo.clip=[x]
sweep --config skull_king_cpu --over ppo.clip=[0.1, 0.2] --trials 0
compare mine text.txt
compare mine mine --min-gain x
diagnose --plan --config skull_king_cpu train.total_steps=0
zoo get nothing
zoo take
zoo get skull_king text.txt
serve --site text.txt
serve --site out --policy nothing
play bot:absent --config skull_king
play mine --seat 9
serve --port 99999999
serve --host 999.999.1.1
serve --game nothing
serve --replays nowhere
serve --runs nowhere
serve --folder text.txt
train skull_king_cpu --processes 0
train --restarts -1
imitate mine --search 8 --name a --data x
imitate skull_king_cpu --data x --iterations 3
bench skull_king_cpu --only touch
diagnose --rate 3
status text.txt
games nothing
config --config skull_king_cpu nothing=1
diagnose --save nowhere/report.json
forge
forge nothing
forge deck
"""
LINES += "".join(f"config {key}=1\n" for key in ("a." * 3000 + "a", "env.options." + "a." * 300 + "a", "x" * 100_000))
AFTER_A_NOTE = """
train skull_king_cpu train.num_envs=1e12
train skull_king_cpu env.id=a.b:C
train skull_king_cpu env.id=os:system
train skull_king_cpu env.id=foo:bar
resume mine env.id=skull_king
resume mine network.hidden=[9]
resume mine train.algorithm=dqn
evaluate mine --search 8 --search-model absent
evaluate mine --search 8 --search-model bot:absent
evaluate mine --search 8 --search-belief learned
evaluate mine --search 8 --search-objective standing
"""


def words(line: str) -> list[str]:
    """The words of a line, split at spaces outside brackets; "" is an empty one."""
    found, depth = [""], 0
    for letter in line:
        depth += (letter in "[{") - (letter in "]}")
        if letter == " " and not depth:
            found.append("")
        else:
            found[-1] += letter
    return ["" if word == '""' else word for word in found]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a finished run, and files that are something else than their names say."""
    place = tmp_path_factory.mktemp("home")
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    (place / "nim.yaml").write_text(NIM + SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert cli.main(["train", "--config", "nim.yaml", "--name", "mine", "evaluate.deals=2"]) == 0
    return place


def listing(place: Path) -> list[str]:
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))


@pytest.mark.thorough
def test_each_mistake_is_one_sentence(home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    capsys.readouterr()
    before, wrong = listing(home), []
    for line in (LINES + AFTER_A_NOTE).strip().splitlines():
        code = cli.main(words(line))
        said = capsys.readouterr().err.splitlines()
        sentence = said[-1] if said else ""
        alone = len(said) == 1 or line in AFTER_A_NOTE
        if code != cli.USER_ERROR or not sentence.startswith("jaxrl: ") or not alone or "Traceback" in sentence:
            wrong.append((line, code, said))
    assert not wrong
    assert listing(home) == before
