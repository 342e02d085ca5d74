"""Finding Forge and Java, and `jaxrl diagnose forge`: what is there, what it does, and what is wrong in a sentence."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl_envs.forge.deckbuilding.deck import read_deck
from jaxrl_envs.forge.diagnosis import Diagnosis
from jaxrl_envs.forge.fleet import find
from jaxrl_envs.forge.fleet.find import find_forge, find_java
from jaxrl_envs.forge.fleet.profiles import PROFILES, java_flags
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.shared.errors import UserError
from tests.support.forge.fake import VERSION, FakeDaemon, Fault, fake_home, fake_java

CARDS = len({name for path in find.DECKS.glob("*.dck") for name in read_deck(path).cards})
JAR = "forge-gui-desktop-{}-jar-with-dependencies.jar"


@pytest.fixture(autouse=True)
def nothing_is_known(tmp_path, monkeypatch):
    """Neither Forge nor Java, and a cache of its own."""
    monkeypatch.delenv("FORGE_HOME", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


# ---- Forge --------------------------------------------------------------------------------------------------------


def test_a_release_is_found_by_configuration_and_by_environment(tmp_path, monkeypatch):
    home = fake_home(tmp_path)
    found = find_forge(str(home))
    assert found.version == VERSION and found.res == home / "res" and found.jar.parent == home
    monkeypatch.setenv("FORGE_HOME", str(home))
    assert find_forge() == found
    with pytest.raises(UserError, match="^forge.home is '/nowhere', but there is no such folder"):
        find_forge("/nowhere")  # a configuration is not overruled in silence


def test_a_missing_home_is_said_in_one_sentence(monkeypatch):
    with pytest.raises(UserError) as error:
        find_forge()
    assert "set forge.home or the environment variable FORGE_HOME" in str(error.value) and "\n" not in str(error.value)
    monkeypatch.setenv("FORGE_HOME", "/nowhere/at/all")
    with pytest.raises(UserError, match="FORGE_HOME is '/nowhere/at/all', but there is no such folder"):
        find_forge()


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("jar", "holds no forge-gui-desktop"),
        ("res", "but res/ is missing"),
        ("cardsfolder", "res/cardsfolder/ is missing"),
    ],
)
def test_a_damaged_release(tmp_path, missing, expected):
    home = fake_home(tmp_path)
    for path in [*home.glob("*.jar")] if missing == "jar" else []:
        path.unlink()
    if missing != "jar":
        (home / "res" / "cardsfolder").rmdir()
    if missing == "res":
        (home / "res" / "editions").rmdir()
        (home / "res").rmdir()
    with pytest.raises(UserError, match=expected) as error:
        find_forge(str(home))
    assert find.RELEASES in str(error.value)


def test_the_newest_of_several_jars_is_taken(tmp_path):
    home = fake_home(tmp_path)
    for version in ("1.6.100", "2.0.09-SNAPSHOT", "2.0.9", "1.9.9"):
        (home / JAR.format(version)).touch()
    found = find_forge(str(home))
    assert found.version == "2.0.9" and found.jar == home / JAR.format("2.0.9")


def test_a_jar_of_another_name_is_known_by_what_is_in_it(tmp_path):
    home = fake_home(tmp_path)
    next(home.glob("*.jar")).unlink()
    (home / "other.jar").write_bytes(b"no archive")
    with zipfile.ZipFile(home / "library.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Implementation-Version: 3.0\r\n")
    with pytest.raises(UserError, match="holds no forge-gui-desktop"):
        find_forge(str(home))
    for manifest, version in (("", ""), ("Manifest-Version: 1.0\r\nImplementation-Version: 1.6.55\r\n", "1.6.55")):
        with zipfile.ZipFile(home / "mine.jar", "w") as jar:
            jar.writestr("forge/game/Game.class", "")
            jar.writestr("META-INF/MANIFEST.MF", manifest)
        assert find_forge(str(home))[1:] == (home / "mine.jar", home / "res", version)


# ---- Java ---------------------------------------------------------------------------------------------------------


def a_java(folder: Path, **properties) -> Path:
    """A fake JDK; its java lies in bin/."""
    (folder / "bin").mkdir(parents=True)
    return fake_java(folder / "bin", **properties)


def test_java_is_found_where_one_looks_for_it(tmp_path, monkeypatch):
    set_by_key, at_home, on_path = (a_java(tmp_path / name, version=f"2{i}.0.1") for i, name in enumerate("abc"))
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_java() == (on_path, "22.0.1")
    monkeypatch.setenv("JAVA_HOME", str(at_home.parent.parent))
    assert find_java() == (at_home, "21.0.1")
    assert find_java(str(set_by_key)) == find_java(str(tmp_path / "a")) == (set_by_key, "20.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert find_java() == (on_path, "22.0.1")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"version": "11.0.21"}, r"forge.java \(.*/bin/java\) is Java 11.0.21"),
        ({"modules": ()}, "is older than Java 9, or none"),
        ({"modules": ("java.base",)}, r"is a Java 17.0.9 without a compiler \(a JRE, not a JDK\)"),
    ],
)
def test_wrong_java(tmp_path, properties, expected):
    java = a_java(tmp_path / "jdk", **properties)
    with pytest.raises(UserError, match=expected) as error:
        find_java(str(java))
    assert "a JDK of version 17 or newer" in str(error.value) and "forge.java" in str(error.value)


def test_a_java_that_will_not_do_is_passed_over(tmp_path, monkeypatch):
    old, good = a_java(tmp_path / "old", version="11"), a_java(tmp_path / "good", version="17")
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    monkeypatch.setenv("PATH", str(good.parent))
    assert find_java().path == good
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(UserError, match=r"JAVA_HOME \(.*\) is Java 11"):
        find_java()


def test_no_java_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="there is no java in JAVA_HOME or on the PATH"):
        find_java()
    with pytest.raises(UserError, match="forge.java is '/nowhere/java', but there is no java"):
        find_java("/nowhere/java")
    (tmp_path / "java").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "java").chmod(0o755)
    with pytest.raises(UserError, match="is older than Java 9, or none"):
        find_java()
    (tmp_path / "java").write_text("#!/nowhere/sh\n")
    os.utime(tmp_path / "java", (1, 1))
    with pytest.raises(UserError, match="cannot be run"):
        find_java()


def test_a_new_java_in_the_same_place_is_asked_again(tmp_path):
    java = a_java(tmp_path / "jdk", version="11")
    with pytest.raises(UserError):
        find_java(str(java))
    fake_java(java.parent, version="21")
    os.utime(java, (1, 1))
    assert find_java(str(java)).version == "21"


def test_flags():
    for profile, collector in PROFILES.items():
        flags = java_flags(profile, 700, Path("/private"))
        assert {"-Xms700m", "-Xmx700m", "-XX:+DisableExplicitGC", "-Djava.awt.headless=true"} <= set(flags)
        assert "-Duser.home=/private" in flags and set(collector) <= set(flags)
        assert sum(flag.startswith("-XX:+Use") and flag.endswith("GC") for flag in flags) == 1
    allow = "--sun-misc-unsafe-memory-access=allow"  # of which JDK 17 knows nothing
    assert [allow in java_flags("g1", 300, Path("/x"), version) for version in ("17.0.1", "25-ea")] == [False, True]


def test_flags_reach_the_jvm(tmp_path):
    words = tmp_path / "words"
    java = fake_java(tmp_path)
    java.write_text(java.read_text().replace("#!/bin/sh\n", f'#!/bin/sh\necho "$@" >> {words}\n', 1))
    keys = {"jvm_options": ("-XX:NewRatio=1", "-Dx=a b"), "record_jfr": str(tmp_path / "jfr")}
    home = fake_home(tmp_path, card=True)
    good, _, problems = diagnosed(Deployment(home=str(home), java=str(java), heap_mb=300, **keys))
    assert good, problems
    said = words.read_text()
    assert f"filename={tmp_path}/jfr/daemon-0.jfr," in said and "-XX:NewRatio=1 -Dx=a b" in said
    assert (tmp_path / "jfr").is_dir()
    with pytest.raises(UserError, match="forge.jvm_options.* must be options that begin with -"):
        Deployment(jvm_options=("Xmx3g",))


# ---- the diagnosis ------------------------------------------------------------------------------------------------


def diagnosed(deployment: Deployment) -> tuple[bool, str, list[str]]:
    lines: list[str] = []
    diagnosis = Diagnosis(deployment, lines.append)
    return diagnosis.run(), "\n".join(lines), diagnosis.problems


def test_everything_is_there(tmp_path):
    home = fake_home(tmp_path, card=True)
    java = fake_java(tmp_path, [Fault("work", text="Serial", seconds=0.05)])
    good, text, problems = diagnosed(Deployment(home=str(home), java=str(java), heap_mb=300))
    assert good and not problems
    for part in (
        f"Java      17.0.9 at {java}",
        f"Forge     {VERSION} at {home} (forge-gui-desktop-{VERSION}-jar-with-dependencies.jar, {CARDS} cards)",
        "profile   serial (-XX:+UseSerialGC), heap 300 MiB",
        "AI        Ai(1)-a won after",
        "left      to Forge's AI beside 5 choices: 3 payment",
        "Magic can be played here.",
    ):
        assert part in text, part


def test_what_is_less_than_it_could_be_is_told(tmp_path):
    home = fake_home(tmp_path, card=True)
    java = fake_java(tmp_path, [Fault("ready", text="short-cuts=no repeats=no", times=0)])
    good, text, _ = diagnosed(Deployment(home=str(home), java=str(java), heap_mb=300))
    notes = [line for line in text.splitlines() if line.startswith("note: ")]
    assert good and ["without them" in notes[0], "does not let the daemons" in notes[1]] == [True, True]
    assert f"never played with Forge {VERSION}" in notes[2]


def test_everything_that_is_missing_is_told_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    good, text, problems = diagnosed(Deployment(decks="/nowhere", daemons=200, heap_mb=100_000))
    assert not good and len(problems) == 3 and "Magic cannot be played here yet." in text
    assert [line for line in text.splitlines() if line.startswith("wrong: ")] == [f"wrong: {each}" for each in problems]
    assert "note: 200 daemons may need more memory than there is" in text


def test_a_daemon_that_cannot_start_is_the_problem(tmp_path):
    home = fake_home(tmp_path, card=True)
    java = fake_java(tmp_path, [Fault("fail", text="the cards cannot be read")])
    good, _, problems = diagnosed(Deployment(home=str(home), java=str(java)))
    assert not good and "the cards cannot be read" in problems[0]


def test_an_empty_folder_of_cards(tmp_path):
    good, _, problems = diagnosed(Deployment(home=str(fake_home(tmp_path)), java=str(fake_java(tmp_path))))
    assert not good and "cardsfolder is empty" in problems[0]


def test_daemons_elsewhere(tmp_path):
    daemon = FakeDaemon()
    good, text, _ = diagnosed(Deployment(daemons=(daemon.address,)))
    assert good and f"127.0.0.1:{daemon.port}, Forge {VERSION}: active games 0, waiting 0" in text
    assert "CPU" not in text
    daemon.close()
    good, _, problems = diagnosed(Deployment(daemons=(daemon.address,)))
    assert not good and "cannot be used" in problems[0]


def test_the_command(tmp_path, capsys):
    home = fake_home(tmp_path, card=True)
    keys = [f"forge.home={home}", f"forge.java={fake_java(tmp_path)}", "forge.heap_mb=300"]
    assert cli.main(["diagnose", "forge", *keys]) == 0
    assert "Magic can be played here." in capsys.readouterr().out
    assert cli.main(["diagnose", "forge", *keys, "forge.java=/nowhere"]) == 2
    assert "wrong: forge.java is '/nowhere'" in capsys.readouterr().out
    assert cli.main(["diagnose", "forge", "forge.profile=zgc"]) == 2
    assert "forge.profile must be serial, parallel, g1 or g1_common" in capsys.readouterr().err
