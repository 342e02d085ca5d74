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
    "list.yaml": b"- 1",
    "scalar.yaml": b"5",
    "binary.yaml": bytes(range(256)),
    "tab.yaml": b"ppo:\n\tclip: 1",
    "twice.yaml": b"ppo: {clip: 0.1}\nppo: {clip: 0.2}",
    "circle.yaml": b"base: circle.yaml",
    "unknown_base.yaml": b"base: nothing_such",
    "text.txt": b"hello",
    "empty.jaxrl": b"",
}
SMALL = "train: {num_envs: 16, num_steps: 4, total_steps: 128, updates_per_call: 1, evaluate_every: 0}\n"

LINES = """
train skull_king_cpu skull_king
train skull_king_cpu train.num_envs
train skull_king_cpu train.num_envs=
train skull_king_cpu train.num_envs=0
train skull_king_cpu train.num_envs=-4
train skull_king_cpu train.num_envs=1.5
train skull_king_cpu train.num_envs=true
train skull_king_cpu train.num_envs=[4]
train skull_king_cpu train.num_envs={a: 1}
train skull_king_cpu train=4
train skull_king_cpu =4
train skull_king_cpu ..=4
train skull_king_cpu train.=4
train skull_king_cpu .train=4
train skull_king_cpu trian.num_envs=4
train skull_king_cpu ppo.learning_rate=-1
train skull_king_cpu ppo.learning_rate=nan
train skull_king_cpu ppo.learning_rate=inf
train skull_king_cpu ppo.learning_rate.kind=cosinus
train skull_king_cpu ppo.learning_rate={start: 1e-3, ende: 1}
train skull_king_cpu ppo.gamma=1.5
train skull_king_cpu ppo.gae_lambda=-0.1
train skull_king_cpu ppo.clip=0
train skull_king_cpu ppo.epochs=0
train skull_king_cpu ppo.optimizer=sgd
train skull_king_cpu ppo.ema=2
train skull_king_cpu ppo.batch_size=1000 ppo.minibatches=3
train skull_king_cpu ppo.batch_size=7
train skull_king_cpu network.kind=cnn
train skull_king_cpu network.hidden=[0]
train skull_king_cpu network.hidden=[]
train skull_king_cpu network.hidden=[] network.kind=recurrent network.recurrent.torso=mlp
train skull_king_cpu network.hidden=[a]
train skull_king_cpu network.activation=relu6
train skull_king_cpu network.kind=recurrent network.recurrent.cell=rnn
train skull_king_cpu network.transformer.dim=63 network.kind=transformer
train beasty_bar network.canonical=true
train skull_king_cpu train.algorithm=a2c
train skull_king_cpu train.algorithm=dqn
train skull_king_cpu env.options.players=1
train skull_king_cpu env.options.plyers=4
train skull_king_cpu env.options=4
train skull_king_cpu env.options.reward=fun
train skull_king_cpu env.id=
train skull_king_cpu evaluate.opponents=[hrad]
train skull_king_cpu evaluate.opponents=hard
train skull_king_cpu evaluate.deals=0
train skull_king_cpu evaluate.opponents=[searcher-0]
train skull_king_cpu evaluate.opponents=[searcher-x]
train skull_king_cpu evaluate.best_by=luck
train skull_king_cpu seats=[]
train skull_king_cpu seats=[{learners: 9}]
train skull_king_cpu seats=[{learners: 1, bots: [absent]}]
train skull_king_cpu seats=[{weight: -1, learners: all}]
train skull_king_cpu league.self_play=2
train skull_king_cpu league.opponents=[absent]
train skull_king_cpu run.seed=-1
train skull_king_cpu run.seed=x
train skull_king_cpu run.seeds=0
train skull_king_cpu run.name=../../x
train skull_king_cpu run.name=a/b
train skull_king_cpu run.logs=some
train skull_king_cpu run.log_level=loud
train skull_king_cpu run.devices=99
train skull_king_cpu train.from_run=nowhere
train skull_king_cpu train.checkpoint_every=0
train skull_king_cpu train.keep=0
train skull_king_cpu train.stop.minutes=-3
train skull_king_cpu train.milestones={hard: [2]}
train skull_king_cpu callbacks=[nothing:Here]
train skull_king_cpu callbacks=[jaxrl:cli]
train skull_king_cpu base=skull_king
train skull_king_cpu --seed 3
train skull_king_cpu --timesteps 3
train skull_king_cpu --name a/b
train --config .
train --config /dev/null
train --config empty.yaml
train --config null.yaml
train --config above_empty.yaml
train --config list.yaml
train --config scalar.yaml
train --config binary.yaml
train --config tab.yaml
train --config twice.yaml
train --config circle.yaml
train --config unknown_base.yaml
resume mine@1
resume mine --steps 0
resume mine --steps x
evaluate mine@99
evaluate mine@x
evaluate mine --opponents absent
evaluate mine --opponents random,absent
evaluate mine --opponents nowhere/run
evaluate mine --opponents zoo:nothing
evaluate mine --opponents zoo:skull_king
evaluate mine --deals 1
evaluate mine --deals x
evaluate mine --deals -4
evaluate mine --search 0
evaluate mine --search 3
evaluate mine --search-kl 1
evaluate mine --search 8 --search-kl 0
evaluate mine --search 8 --search-sure 2
evaluate mine --search 8 --search-planner maze
evaluate mine --checkpoint 99
evaluate mine --checkpoint oldest
evaluate bot:absent --config skull_king
evaluate zoo:nothing
evaluate text.txt
evaluate empty.jaxrl
evaluate .
evaluate mine --out nowhere/deep/file.json
tournament mine mine
tournament mine --anchor absent
tournament bot:random --config skull_king
tournament mine text.txt
rate mine --anchors absent
rate nothing_such
rate mine --file text.txt
exploit mine --updates 0
exploit mine --checkpoint 99
exploit mine --budget half
exploit mine --from nowhere
exploit zoo:nothing
exploit zoo:skull_king --checkpoint best
exploit empty.jaxrl
distill mine --name wiser
distill mine --search 8
distill mine --name mine --search 8
imitate skull_king_cpu
imitate skull_king_cpu --data nowhere.jsonl
imitate skull_king_cpu --data bot:absent
imitate skull_king_cpu --data text.txt
imitate skull_king_cpu --data bot:hard --games 0
film mine --seat 9
film mine --out film.gif
film mine --out nowhere/film.svg
film mine --pace 0
film mine --opponents absent
export mine --seed-index 3
export mine nowhere/policy.jaxrl
export mine --half --numpy
export text.txt
check skull_king players=9
check skull_king players
check skull_king --games 0
check skull_king --only nothing
check nowhere.module:Game
verify skull_king text.txt
verify skull_king .
verify skull_king empty.yaml
verify beasty_bar
ablate --config skull_king_cpu
ablate --config skull_king_cpu --over env.options.reward
ablate --config car_soccer_duel --over env.options.rewards --only nothing
sweep --config skull_king_cpu
sweep --config skull_king_cpu --over ppo.clip
sweep --config skull_king_cpu --over ppo.clipp=[0.1, 0.2]
sweep --config skull_king_cpu --over ppo.clip=[x]
sweep --config skull_king_cpu --over ppo.clip=[0.1, 0.2] --trials 0
bench skull_king_cpu --minutes 0
bench nothing_such
bench skull_king_cpu --seeds 0
compare mine
compare mine nowhere
compare mine text.txt
compare mine mine --min-gain x
plan --config nothing
plan --config skull_king_cpu --steps 0
plan --config skull_king_cpu --price -1
zoo show nothing
zoo get nothing
zoo take
zoo get skull_king text.txt
site text.txt
site out --policy nothing
play bot:absent --config skull_king
play mine --seat 9
play mine --seat x
play mine --opponents absent
serve --port 99999999
serve --port x
serve --host 999.999.1.1
serve --game nothing
serve --replays nowhere
serve --runs nowhere
serve --folder text.txt
launch -n 0 train skull_king_cpu
launch -n 2
launch -n 2 play mine
launch -n x train skull_king_cpu
status nowhere
status text.txt
runs nowhere
games nothing
config nothing_such
config --config skull_king_cpu nothing=1
diagnose nothing
diagnose --config nothing
diagnose --compare nowhere.json
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
