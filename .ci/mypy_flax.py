"""Teaches mypy that `flax.struct.dataclass` gives a class a `replace` method that returns its own type."""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import ARG_STAR2, Argument, Var
from mypy.plugin import ClassDefContext, Plugin
from mypy.plugins.common import add_method_to_class
from mypy.types import AnyType, TypeOfAny
from mypy.typevars import fill_typevars


def _add_replace(context: ClassDefContext) -> None:
    if "replace" not in context.cls.info.names:
        anything = AnyType(TypeOfAny.explicit)
        updates = Argument(Var("updates", anything), anything, None, ARG_STAR2)
        add_method_to_class(context.api, context.cls, "replace", [updates], fill_typevars(context.cls.info))


class FlaxPlugin(Plugin):
    """The plugin that `[tool.mypy] plugins` names."""

    def get_class_decorator_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Returns the hook for one decorator."""
        return _add_replace if fullname == "flax.struct.dataclass" else None


def plugin(version: str) -> type[Plugin]:
    """Mypy's entry point."""
    return FlaxPlugin
