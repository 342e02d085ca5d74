"""The section `network`: the policy and value network."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section, divides


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """The transformer over cards (`network.kind: transformer`)."""

    dim: int = option(64, "width of a card token", minimum=1)
    heads: int = option(4, "attention heads; must divide dim", minimum=1)
    layers: int = option(2, "transformer layers", minimum=1)
    embedding: int = option(0, "width of the suit and rank embeddings, projected to dim; 0: dim itself", minimum=0)
    feed_forward: int = option(0, "width of each layer's feed-forward part; 0: 2 * dim", minimum=0)
    dropout: float = option(
        0.0, "share set to 0 while learning; first ratios of an update are then not exactly 1", minimum=0.0, maximum=0.9
    )


@dataclasses.dataclass(frozen=True)
class CandidatesConfig:
    """The network that scores options one by one (`network.kind: candidates`)."""

    dim: int = option(64, "width of an entity and of an option; the context is twice as wide", minimum=1)
    layers: int = option(2, "dense layers that read an entity, an option and the context", minimum=1)
    embedding: int = option(
        16, "numbers learnt about every kind of thing, e.g. a card's name, beyond its features; 0: none", minimum=0
    )
    attention: int = option(0, "attention layers in which entities look at each other first; 0: none", minimum=0)
    together: int = option(
        0, "attention layers in which entities and options look at each other after that; 0: none", minimum=0
    )
    heads: int = option(4, "attention heads; must divide dim", minimum=1)
    context: int = option(0, "width of the layers that read the situation; 0: 2 * dim", minimum=0)
    rows: bool = option(False, "the situation is also read row by row: which entity stands in which row matters")
    layer_norm: bool = option(True, "layers are normalised; without, small networks are twice as fast on a CPU")


@dataclasses.dataclass(frozen=True)
class RecurrentConfig:
    """The network with a memory (`network.kind: recurrent`): a torso, recurrent layers, heads."""

    torso: str = option(
        "mlp",
        "what reads an observation; configured as the network of that kind",
        choices=("mlp", "transformer", "candidates"),
    )
    cell: str = option("lstm", "kind of the recurrent layers", choices=("lstm", "gru"))
    width: int = option(256, "numbers that each layer remembers for each seat (an LSTM: twice as many)", minimum=1)
    layers: int = option(1, "recurrent layers", minimum=1)


@dataclasses.dataclass(frozen=True)
class NetworkConfig(Section):
    """The policy and value network."""

    fixed: ClassVar[tuple[str, ...]] = ("",)

    kind: str = option(
        "mlp",
        "encoder of the observation: mlp, transformer, candidates, recurrent, or package.module:Class, your own",
        pattern=rf"mlp|transformer|candidates|recurrent|{user_code.NAME}",
        words="mlp, transformer, candidates, recurrent or package.module:Class",
        runs=user_code.permissions,
    )
    hidden: tuple[int, ...] = option((256, 256), "mlp: widths of the dense layers", minimum=1)
    activation: str = option(
        "relu",
        "mlp: non-linearity of the dense layers; tanh to compare with other libraries",
        choices=("relu", "tanh", "gelu", "silu"),
    )
    layer_norm: bool = option(
        False, "mlp: every dense layer is normalised before its non-linearity (https://arxiv.org/abs/1607.06450)"
    )
    compute_dtype: str = option(
        "float32", "precision of the torso; heads and loss are float32", choices=("float32", "bfloat16")
    )
    normalize: bool = option(
        False, "mean and variance of every feature are learnt while playing and taken out, e.g. for physical quantities"
    )
    transformer: TransformerConfig = option(TransformerConfig(), "the transformer over cards")
    candidates: CandidatesConfig = option(CandidatesConfig(), "the network that scores options one by one")
    recurrent: RecurrentConfig = option(RecurrentConfig(), "the network with a memory")

    @property
    def reader(self) -> tuple[str, str]:
        """The kind of network that reads observations, and its key."""
        return (self.recurrent.torso, "recurrent.torso") if self.kind == "recurrent" else (self.kind, "kind")

    def check(self, config: Any) -> None:
        """Widths that the heads divide, and dense layers where they are to be normalised."""
        if self.layer_norm and self.reader[0] in ("transformer", "candidates"):
            raise UserError(
                f"network.layer_norm is for the dense layers of mlp, not for {self.reader[0]}: set it to false."
            )
        divides(self.transformer.dim, self.transformer.heads, "network.transformer.dim", "network.transformer.heads")

    def check_game(self, config: Any, env: Any) -> None:
        """A game that describes what the network reads."""
        from jaxrl_envs.contract.env import Env  # here, because it imports jax, which reading a configuration does not

        reader, key = self.reader
        if reader == "transformer" and type(env).tokens is Env.tokens:
            raise UserError(f"network.{key} transformer needs card tokens, which {config.env.id} has not: use mlp.")
        if reader == "candidates" and type(env).candidates is Env.candidates:
            raise UserError(
                f"network.{key} candidates needs options that are described one by one, which {config.env.id} has "
                "not: use mlp."
            )
