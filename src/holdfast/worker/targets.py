"""How a child process finds a handler again: by its module, its name there, and its job type.

A handler in the script that was started is found as multiprocessing finds it: the script is imported once more under
the name ``__mp_main__``, so what must not happen again stands under ``if __name__ == "__main__":``. While a child
imports, it refuses to start workers of its own.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import process, spawn
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from holdfast.core.errors import UsageError
from holdfast.worker.handler import Handler, Registry
from holdfast.worker.messages import MainModule, Target

MAIN_NAMES: Final = ("__main__", "__mp_main__")


def require_importable(function: Callable[..., Any]) -> None:
    """UsageError where a child process could not find this function."""
    module, name = _place(function)
    if module == "__main__" and main_module() == MainModule():
        raise UsageError(
            f"{name!r} shall run in a child process, which cannot find what was typed in: put it in a file of its "
            'own, not in a package\'s __main__.py, or use isolation="thread"'
        )
    if "<" in name:
        raise UsageError(
            f"{module}.{name} shall run in a child process, which cannot find a function inside another one: define "
            'it at the top of its module, or use isolation="thread"'
        )


def main_module() -> MainModule:
    """What this program was started as, for a child to import."""
    main = sys.modules["__main__"]
    spec_name = getattr(getattr(main, "__spec__", None), "name", None)
    if spec_name is not None:
        # A package's __main__.py is never imported: most of them have no guard.
        is_package_main = spec_name.rpartition(".")[2] == "__main__"
        return MainModule() if is_package_main else MainModule(name=spec_name)
    file = getattr(main, "__file__", None)
    started_in: str = process.ORIGINAL_DIR  # type: ignore[attr-defined]
    return MainModule() if file is None else MainModule(path=str(Path(started_in, file)))


def target_of(handler: Handler) -> Target:
    module, name = _place(handler.function)
    file = getattr(sys.modules.get(module), "__file__", None)
    return Target(job_type=handler.name, module=module, qualified_name=name, file=file)


def _place(function: Callable[..., Any]) -> tuple[str, str]:
    return getattr(function, "__module__", None) or "?", getattr(function, "__qualname__", None) or "<unnamed>"


# in the child


def find(target: Target, main: MainModule) -> Handler:
    """Import what is needed; raises whatever the import raises."""
    with _importing():
        module = _main(main) if target.module in MAIN_NAMES else _imported(target)
    for candidate in _candidates(module, target.qualified_name):
        handler = _handler_in(candidate, target.job_type)
        if handler is not None and handler.function.__qualname__ == target.qualified_name:
            return handler
    raise UsageError(
        f"{target.module} has no job type {target.job_type!r} when a child process imports it: define the job at the "
        'top of the module, not under a condition such as if __name__ == "__main__":'
    )


def require_not_importing() -> None:
    """UsageError in a child that is importing a program which opens its app when it is imported."""
    if _imports_open:
        raise UsageError(
            "this program opens its app while it is imported; a child process must import it to find its handlers: "
            'put what submits jobs and starts workers under if __name__ == "__main__":'
        )


@contextmanager
def _importing() -> Iterator[None]:
    global _imports_open
    _imports_open += 1
    try:
        yield
    finally:
        _imports_open -= 1


_imports_open = 0


def _main(main: MainModule) -> ModuleType:
    if main.name is not None:
        spawn.prepare({"init_main_from_name": main.name})
    elif main.path is not None:
        spawn.prepare({"init_main_from_path": main.path})
    return sys.modules["__main__"]


def _imported(target: Target) -> ModuleType:
    try:
        return importlib.import_module(target.module)
    except ModuleNotFoundError as error:
        # Loaded from its file under a name that no path leads to. An import that fails inside it is another matter.
        if target.file is None or error.name is None or not f"{target.module}.".startswith(f"{error.name}."):
            raise
    spec = importlib.util.spec_from_file_location(target.module, target.file)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {target.module!r}", name=target.module)
    module = importlib.util.module_from_spec(spec)
    sys.modules[target.module] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[target.module]
        raise
    return module


def _candidates(module: ModuleType, qualified_name: str) -> Iterator[Any]:
    """What has the function's name, then everything else in the module: the function may have another name there."""
    found: Any = module
    for step in qualified_name.split("."):
        found = getattr(found, step, None)
    yield found
    yield from list(vars(module).values())


def _handler_in(candidate: Any, job_type: str) -> Handler | None:
    # Anything may stand in a module, also objects that fail when they are asked for an attribute.
    with suppress(Exception):
        handler = getattr(candidate, "handler", None)
        if isinstance(handler, Handler) and handler.name == job_type:
            return handler
    with suppress(Exception):
        registry = getattr(candidate, "registry", None)
        if isinstance(registry, Registry):
            return registry.get(job_type)
    return None
