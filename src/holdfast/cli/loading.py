"""From ``module:app`` to the app. Whatever is wrong with it is said in one line, with what to write instead."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from holdfast.app import Holdfast

EXAMPLE: Final = "holdfast worker jobs:app"


def load_app(target: str) -> "Holdfast":
    """The app that ``module:name`` names, imported from the working directory or wherever Python finds it."""
    from holdfast.app import Holdfast

    module_name, colon, name = target.partition(":")
    _require_module_name(module_name)
    _add_working_directory()
    module = _import(module_name)
    if not colon or not name:
        raise UsageError(f"{target!r} names no app; {_advice(module)}")
    found = _attribute(module, name)
    if not isinstance(found, Holdfast):
        kind = type(found).__qualname__
        raise UsageError(
            f"{target} is {'a' if kind[0] not in 'aeiouAEIOU' else 'an'} {kind}, no app; {_advice(module)}"
        )
    return found


def _require_module_name(name: str) -> None:
    if name.endswith(".py") or "/" in name:
        dotted = ".".join(Path(name.removesuffix(".py")).parts).lstrip(".")
        raise UsageError(f"{name!r} is a file; name the module instead: holdfast worker {dotted}:app")
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} is not a module; write {EXAMPLE}, where jobs.py has app = Holdfast(…)")


def _add_working_directory() -> None:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"no module {error.name!r} (for {name}) in {Path.cwd()} or the environment of {sys.executable}; "
                f"change to the folder that holds it, or install it"
            ) from error
        raise ConfigError(f"{name} needs module {error.name!r}, which is not installed{_place(error)}") from error
    except SystemExit as error:
        raise ConfigError(f"{name} ended the program while it was imported (sys.exit{_place(error)})") from error
    except Exception as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"{name} cannot be imported: {type(error).__name__}: {said}{_place(error)}") from error


def _place(error: BaseException) -> str:
    """Where in the user's own files it happened."""
    if isinstance(error, SyntaxError):
        return ""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and frame.filename != __file__
    ]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _attribute(module: ModuleType, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise UsageError(f"{module.__name__} has no {path!r}; {_advice(module)}")
        found = getattr(found, name)
    return found


def _advice(module: ModuleType) -> str:
    from holdfast.app import Holdfast

    names = [name for name, value in vars(module).items() if isinstance(value, Holdfast)]
    if names:
        return f"write {' or '.join(f'{module.__name__}:{name}' for name in names)}"
    return f"{module.__name__} has no app at all: write app = Holdfast(…) there"
