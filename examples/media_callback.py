"""Tables, histograms and films of a training beside its numbers, in TensorBoard or in Weights & Biases.

jaxrl train --config skull_king_cpu callbacks=[examples.media_callback:TensorBoardMedia]
jaxrl train --config skull_king_cpu run.logs=[wandb] callbacks=[examples.media_callback:WandbMedia]

A table of the opponents after each evaluation, histograms of the parameters at each checkpoint, and at the end a game
of the last evaluation as a film (it needs pip install 'jaxrl[video]').
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxrl.matches.recording import video
from jaxrl.matches.recording.film import film as write_film
from jaxrl.policies.find import Lookup
from jaxrl.runs.checkpoints.leaves import params_of
from jaxrl.runs.directory import find_run, read_checkpoint
from jaxrl.training.callbacks import Callback, RunFacts
from jaxrl_envs.shared.errors import UserError


class MediaCallback(Callback):
    """Calls `table`, `histogram` and `film`, which a subclass has for its library."""

    def on_start(self, run: RunFacts) -> None:
        """Remembers the run's folder."""
        self.directory, self.step = run.directory, run.step

    def on_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Shows a table of the win rates, where the line is one of an evaluation."""
        self.step = step
        won = {
            tag.split("/")[1]: value
            for tag, value in metrics.items()
            if tag.startswith("eval/") and tag.endswith("/win_rate")
        }
        if won:
            self.table("evaluation", ["opponent", "won"], [[name, value] for name, value in won.items()])

    def on_checkpoint(self, update: int, directory: Path) -> None:
        """Shows a histogram for each array of the parameters."""
        saved = read_checkpoint(find_run(self.directory), str(update))
        for path, array in jax.tree.leaves_with_path(params_of(saved.arrays)):
            self.histogram(f"parameters/{jax.tree_util.keystr(path, simple=True, separator='/')}", np.asarray(array))

    def on_end(self, finished: bool) -> None:
        """Shows a film of the game with the highest return of the last evaluation that kept one."""
        kept = sorted((self.directory / "replays").glob("*/highest_return.replay"))
        if not kept:
            return
        file = self.directory / "media.gif"
        try:
            video.check_name(str(file))
            write_film(str(kept[-1]), Lookup(), seat=0, opponents=(), seed=0, file=str(file), rewards="", pace=2.0)
        except UserError as error:  # the game has no drawings, or the extra is not installed
            print(f"no film: {error}")
            return
        self.film("game", file)

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Shows a table."""
        raise NotImplementedError

    def histogram(self, name: str, values: np.ndarray) -> None:
        """Shows how numbers are spread."""
        raise NotImplementedError

    def film(self, name: str, file: Path) -> None:
        """Shows a GIF."""
        raise NotImplementedError


class TensorBoardMedia(MediaCallback):
    """In the run's folder `media`, which `tensorboard --logdir RUN` reads with the run's own figures."""

    def on_start(self, run: RunFacts) -> None:
        """Opens the writer."""
        from tensorboardX import SummaryWriter

        super().on_start(run)
        self.writer = SummaryWriter(str(run.directory / "media"))

    def on_end(self, finished: bool) -> None:
        """Closes the writer."""
        super().on_end(finished)
        self.writer.close()

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """As text in Markdown."""
        lines = [columns, ["---"] * len(columns), *rows]
        self.writer.add_text(name, "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines), self.step)

    def histogram(self, name: str, values: np.ndarray) -> None:
        """Adds it to the page of histograms and distributions."""
        self.writer.add_histogram(name, values, self.step)

    def film(self, name: str, file: Path) -> None:
        """As an image, which moves."""
        from PIL import Image
        from tensorboardX.proto.summary_pb2 import Summary

        width, height = Image.open(file).size
        image = Summary.Image(width=width, height=height, colorspace=3, encoded_image_string=file.read_bytes())
        self.writer.file_writer.add_summary(Summary(value=[Summary.Value(tag=name, image=image)]), self.step)


class WandbMedia(MediaCallback):
    """In the W&B run that `run.logs=[wandb]` has begun."""

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """As a table."""
        import wandb

        wandb.log({name: wandb.Table(columns=list(columns), data=[list(row) for row in rows])}, step=self.step)

    def histogram(self, name: str, values: np.ndarray) -> None:
        """As a histogram of 64 bins."""
        import wandb

        wandb.log({name: wandb.Histogram(np_histogram=np.histogram(values, 64))}, step=self.step)

    def film(self, name: str, file: Path) -> None:
        """As a video."""
        import wandb

        wandb.log({name: wandb.Video(str(file), format="gif")}, step=self.step)
