"""Imports classes of users by name ("package.module:Class"), and locates errors in their code.

Importing a module runs it, so the caller of `find_class` must have checked the name: names from files are checked by
`jaxrl.config.trust`.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from jaxrl_envs.shared.errors import UserError, nearest

NAME = r"[\w-]+(\.[\w-]+)*:[^\W\d]\w*"
OURS_TOP = ("jaxrl", "jaxrl_envs")  # packages whose errors are ours
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_imported: set[str] = set()  # modules of `find_class`: their errors are reported to the user


def is_name(text: str) -> bool:
    """Returns whether a text names a class as "package.module:Class"."""
    return re.fullmatch(NAME, text) is not None


def permissions(text: str) -> tuple[str, ...]:
    """The permissions that each suffice to import "a.b:C": its module (first), the name itself, or a parent package;
    empty if the text names no class."""
    if not is_name(text):
        return ()
    module = text.partition(":")[0]
    parts = module.split(".")
    return (module, text, *(".".join(parts[:end]) for end in range(1, len(parts))))


def path(text: str) -> tuple[str, ...]:
    """Returns the permissions for the path of a program, of a folder of programs or to write to: the path."""
    return (text,) if text else ()


OPTION: dict[str, Any] = {"pattern": NAME, "words": "package.module:Class", "runs": permissions}  # of a setting


def find_class(name: str, base: type, what: str) -> type:
    """The class that a name of the form "package.module:Class" stands for; its module is imported, nothing is called.

    Args:
      name: "package.module:Class"; modules in the working directory are found too.
      base: required base class.
      what: the key or the kind of thing that is named; begins the messages.

    Raises:
      UserError: the class does not exist, importing its module fails, or an abstract method is not defined.
    """
    if not is_name(name):
        raise UserError(f"{what} {name!r} cannot be found: a class of your own is written package.module:Class.")
    module_name, _, class_name = name.partition(":")
    module = _import(module_name, f"{what} {name!r}")
    if not hasattr(module, class_name):
        known = [name for name, value in vars(module).items() if isinstance(value, type) and issubclass(value, base)]
        raise UserError(f"{what} {name!r}: {module_name} has no {class_name!r}; {nearest(class_name, known)}")
    found = getattr(module, class_name)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise UserError(f"{what} {name!r} is no subclass of {base.__module__}.{base.__qualname__}, which it must be.")
    absent = [name for name in dir(base) if getattr(getattr(found, name, None), "__isabstractmethod__", False)]
    if absent:
        raise UserError(f"{what} {name!r} lacks {' and '.join(absent)}: define them in the class, {place_of(found)}.")
    return found


def place_of(thing: Any) -> str:
    """Returns the file and line of a class or a function."""
    try:
        return f"{_shown(inspect.getsourcefile(thing) or '')}, line {inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):  # made without a source
        return str(thing.__module__)


def check_module(name: str, what: str) -> None:
    """Raises UserError if the module of "package.module:Class", or the package that it is in, cannot be found; imports
    nothing. Arguments as of `find_class`, but `what` is the whole beginning of the message."""
    if os.getcwd() not in sys.path:  # only now, after the name was checked
        sys.path.append(os.getcwd())
    top = re.split("[.:]", name)[0]
    if top not in sys.modules and importlib.util.find_spec(top) is None:
        raise UserError(f"{what}: there is no module {top!r}")


def _import(name: str, what: str) -> ModuleType:
    if name.partition(".")[0] in OURS_TOP:  # our own error: do not convert it
        return importlib.import_module(name)
    check_module(name, what)
    _imported.add(name)
    try:
        return importlib.import_module(name)
    except SyntaxError as error:
        place = f"{_shown(error.filename or name)}, line {error.lineno}"
        raise UserError(f"{what}: {place}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        missing = error.name or name if isinstance(error, ModuleNotFoundError) else ""
        if name == missing or name.startswith(f"{missing}."):
            raise UserError(f"{what}: there is no module {missing!r}") from error
        raise UserError(f"{what}: {_told(error)}") from error


# ---- where it goes wrong --------------------------------------------------------------------------------------------


def fault(error: BaseException) -> str | None:
    """Locates an error in a user's code: "mine.py, line 12, in _step: KeyError: 'x'"; None if it is not from there.

    An exception belongs to a user's code if it was raised there, or in a library called from there.
    """
    owners = [_owner(frame) for frame, _ in traceback.walk_tb(error.__traceback__)]
    ends = [owner for owner in owners if owner != LIBRARY]
    return _told(error) if NAMED in owners and ends[-1] != OURS else None


OURS, LIBRARY, NAMED, OTHER = "ours", "a library's", "of a module that a user has named", "of another one"


def _owner(frame: FrameType) -> str:
    file = frame.f_code.co_filename
    if frame.f_globals.get("__name__") in _imported:
        return NAMED
    if str(frame.f_globals.get("__name__")).partition(".")[0] in OURS_TOP:
        return OURS
    return LIBRARY if file.startswith((*_LIBRARIES, "<")) else OTHER


def _told(error: BaseException) -> str:
    """Returns the exception as text, with the last line of user code in its traceback."""
    first = (str(error).strip() or "no message").splitlines()[0]
    text = f"{type(error).__name__}: {first}"
    places = [each for each in traceback.walk_tb(error.__traceback__) if _owner(each[0]) in (NAMED, OTHER)]
    if not places:
        return text
    frame, line = places[-1]
    function = "" if frame.f_code.co_name == "<module>" else f", in {frame.f_code.co_name}"
    return f"{_shown(frame.f_code.co_filename)}, line {line}{function}: {text}"


def _shown(file: str) -> str:
    """Returns a path, relative to the working directory if it lies in it."""
    return str(Path(file).relative_to(Path.cwd())) if Path(file).is_relative_to(Path.cwd()) else file
