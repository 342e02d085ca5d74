"""The section `network`: the policy and value network."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section, divides

if TYPE_CHECKING:
    from jaxrl.config.schema import Config
    from jaxrl_envs.contract.env import Env


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """The transformer over cards (`network.kind: transformer`)."""

    dim: int = option(64, "width of a card token", minimum=1)
    heads: int = option(4, "attention heads; must divide dim", minimum=1)
    layers: int = option(2, "transformer layers", minimum=1)
    embedding: int = option(0, "width of suit and rank embeddings, projected to dim; 0: dim", minimum=0)
    feed_forward: int = option(0, "width of the feed-forward layers; 0: 2 * dim", minimum=0)
    dropout: float = option(
        0.0,
        "dropout rate while learning; the first probability ratios of an update are then not exactly 1",
        minimum=0.0,
        maximum=0.9,
    )


@dataclasses.dataclass(frozen=True)
class CandidatesConfig:
    """The network that scores options one by one (`network.kind: candidates`)."""

    dim: int = option(64, "width of an entity and of an option", minimum=1)
    layers: int = option(2, "dense layers in each encoder (entities, options, context)", minimum=1)
    attention: int = option(0, "self-attention layers over entities", minimum=0)
    together: int = option(0, "attention layers over entities and options together, after those", minimum=0)
    context: int = option(0, "width of the context encoder; 0: 2 * dim", minimum=0)
    rows: bool = option(False, "the context also reads the entities row by row, for games in which a row has a meaning")
    layer_norm: bool = option(True, "layer normalisation; false makes small networks twice as fast on a CPU")


@dataclasses.dataclass(frozen=True)
class RecurrentConfig:
    """The network with a memory (`network.kind: recurrent`): a torso, recurrent layers, heads."""

    torso: str = option(
        "mlp",
        "network that encodes the observation, configured by its own keys",
        choices=("mlp", "transformer", "candidates"),
    )
    cell: str = option("lstm", "recurrent cell", choices=("lstm", "gru"))
    width: int = option(256, "hidden units per layer and seat (an LSTM stores twice as many numbers)", minimum=1)
    layers: int = option(1, "recurrent layers", minimum=1)


@dataclasses.dataclass(frozen=True)
class NetworkConfig(Section):
    """The policy and value network."""

    fixed: ClassVar[tuple[str, ...]] = ("",)

    kind: str = option(
        "mlp",
        "mlp, transformer (over card tokens), candidates (scores options by their features), "
        "recurrent (one of these with a memory), or package.module:Class of your own",
        pattern=rf"mlp|transformer|candidates|recurrent|{user_code.NAME}",
        words="mlp, transformer, candidates, recurrent or package.module:Class",
        runs=user_code.permissions,
    )
    hidden: tuple[int, ...] = option((256, 256), "mlp: widths of the dense layers", minimum=1)
    activation: str = option(
        "relu",
        "mlp: activation function; tanh to compare with other libraries",
        choices=("relu", "tanh", "gelu", "silu"),
    )
    layer_norm: bool = option(
        False, "mlp: layer normalisation before every activation (https://arxiv.org/abs/1607.06450)"
    )
    compute_dtype: str = option(
        "float32",
        "precision of the torso, bfloat16 for GPUs; heads and loss stay float32",
        choices=("float32", "bfloat16"),
    )
    normalize: bool = option(
        False, "normalise observations by their running mean and variance, e.g. physical quantities"
    )
    canonical: bool = option(
        False,
        "name by their role what a symmetry of the game exchanges, e.g. suits (skull_king; "
        "https://arxiv.org/abs/2211.06489)",
    )
    transformer: TransformerConfig = option(TransformerConfig(), "keys of kind transformer")
    candidates: CandidatesConfig = option(CandidatesConfig(), "keys of kind candidates")
    recurrent: RecurrentConfig = option(RecurrentConfig(), "keys of kind recurrent")

    @property
    def reader(self) -> tuple[str, str]:
        """The kind of network that reads observations, and its key."""
        return (self.recurrent.torso, "recurrent.torso") if self.kind == "recurrent" else (self.kind, "kind")

    def check(self, config: Config) -> None:
        """Rejects heads that do not divide the width, no dense layers, and layer_norm without dense layers."""
        if self.reader[0] == "mlp" and not self.hidden:
            raise UserError("network.hidden is empty: give the width of at least one dense layer, e.g. [256, 256].")
        if self.layer_norm and self.reader[0] in ("transformer", "candidates"):
            raise UserError(
                f"network.layer_norm is for the dense layers of mlp, not for {self.reader[0]}: set it to false."
            )
        divides(self.transformer.dim, self.transformer.heads, "network.transformer.dim", "network.transformer.heads")

    def check_game(self, config: Config, env: Env) -> None:
        """Rejects a network that reads what the game does not describe."""
        import jax  # here, because reading a configuration does not import it

        from jaxrl_envs.contract.env import Env

        if self.canonical and jax.eval_shape(env.canonical, env.observation_spec) is None:
            raise UserError(f"network.canonical is true, but {config.env.id} has no canonical form: set it to false.")
        reader, key = self.reader
        if reader == "transformer" and type(env).tokens is Env.tokens:
            raise UserError(f"network.{key} transformer needs card tokens, which {config.env.id} has not: use mlp.")
        if reader == "candidates" and type(env).candidates is Env.candidates:
            raise UserError(
                f"network.{key} candidates needs options that are described one by one, which {config.env.id} has "
                "not: use mlp."
            )
