"""`jaxrl.matches.recording.video`: films as GIF and MP4, extra `video`."""

import importlib.util

import jax
import pytest

from jaxrl import cli
from jaxrl.matches.recording import video
from jaxrl_envs.shared.display.svg_animation import Timeline

INSTALLED = all(importlib.util.find_spec(name) for name in ("resvg_py", "PIL", "imageio_ffmpeg"))


def film() -> str:
    """Two seconds: a square that moves and turns evenly, and a part that is only there in the first one."""
    timeline = Timeline.of([1.0, 1.0])
    moved = timeline.gradual([(0.0, "0 0"), (1.0, "100 20")], "translate")
    shown = timeline.variants(["first", None], lambda frame: '<rect width="10" height="10" fill="#fff"/>')
    spinner = '<animate attributeName="x" values="0;9" dur=".25s" repeatCount="indefinite"/>'
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 101">'
        f'<g transform="scale(9)">{moved}<rect width="20" height="20" fill="#f00" x="0">{spinner}</rect></g>'
        f"{shown}</svg>"
    )


def test_a_still_has_the_values_of_its_time_and_no_animation():
    stills = list(video.stills_of(film(), 2.0))
    assert len(stills) == 4
    assert not any("animate" in still for still in stills)
    moves = ["translate(0 0)", "translate(50 10)", "translate(100 20)", "translate(100 20)"]
    for still, move, opacity in zip(stills, moves, ("1", "1", "0", "0"), strict=True):
        assert f'transform="{move}"' in still and "scale" not in still  # an animated transformation replaces it
        assert f'opacity="{opacity}"' in still
        assert 'x="0"' in still  # what repeats faster than the whole stands still
    assert [count for _, count in video.distinct_stills(film(), 2.0)] == [1, 1, 2]


def test_a_picture_without_animation_is_one_still():
    assert len(list(video.stills_of('<svg xmlns="http://www.w3.org/2000/svg"/>', 10.0))) == 1


@pytest.mark.skipif(not INSTALLED, reason="needs pip install 'jaxrl[video]'")
@pytest.mark.parametrize("name", ["film.gif", "film.mp4"])
def test_a_video_has_the_length_and_the_pictures_of_the_film(tmp_path, name, recwarn):
    file = tmp_path / name
    jax.devices()  # from now on a fork of this process is unsafe
    video.write_video(film(), file)
    assert not [each for each in recwarn if "fork" in str(each.message)]
    if name.endswith(".gif"):
        from PIL import Image

        opened = Image.open(file)
        seconds = sum(opened.seek(i) or opened.info["duration"] for i in range(opened.n_frames)) / 1000
        size = opened.size
        opened.seek(0)
        assert opened.convert("RGB").getpixel((8, 8)) == (255, 255, 255)
        opened.seek(opened.n_frames - 1)
        assert max(opened.convert("RGB").getpixel((8, 8))) < 50  # the part is gone, and the square too
    else:
        import imageio_ffmpeg

        told = next(iter(imageio_ffmpeg.read_frames(str(file))))
        seconds, size = told["duration"], told["size"]
    assert seconds == pytest.approx(2.0, abs=0.1)
    width = video.WIDTH[file.suffix]
    assert size[0] == width and size[1] % 2 == 0 and size[1] == pytest.approx(width * 101 / 200, abs=2)


def test_the_extra_is_named_before_a_game_is_played(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cli.main(["film", "bot:random", "--out", str(tmp_path / "game.gif"), "env.id=skull_king"]) == 2
    assert "pip install 'jaxrl[video]'" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.skipif(not INSTALLED, reason="needs pip install 'jaxrl[video]'")
def test_a_game_is_filmed_as_a_gif(tmp_path, capsys):
    file = tmp_path / "game.gif"
    arguments = ["film", "bot:random", "--out", str(file), "env.id=beasty_bar", "--pace", "20"]
    assert cli.main(arguments) == 0
    assert "decisions" in capsys.readouterr().out and file.read_bytes()[:4] == b"GIF8"
