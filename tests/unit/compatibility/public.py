"""The public names and their signatures as text, a line each: ``python -m tests.unit.compatibility.public``."""

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

MODULES: Final = ("holdfast", "holdfast.testing")
OTHERS: Final = {
    "holdfast.contrib.opentelemetry": ("OpenTelemetry",),
    "holdfast.contrib.prometheus": ("Prometheus",),
    "holdfast.core.access": ("Scope",),
    "holdfast.core.errors": ("AccessDenied",),
    "holdfast.engine.access": ("Access",),
    "holdfast.rpc.client": ("Client",),
    "holdfast.telemetry": ("configure",),
    "holdfast.wiring": ("create_store",),
}
"""Names that the documentation tells users to import."""


def describe() -> list[str]:
    names = {module: import_module(module).__all__ for module in MODULES} | OTHERS
    return sorted(
        {
            line
            for module, public in names.items()
            for name in public
            for line in _name(f"{module}.{name}", getattr(import_module(module), name))
        }
    )


def _name(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _class(name, value)
    elif inspect.isroutine(value):
        yield f"{name}{_signature(value)}"
    else:
        yield name


def _class(name: str, value: type[Any]) -> Iterator[str]:
    yield f"{name}{_signature(value)}" if dataclasses.is_dataclass(value) or "__init__" in vars(value) else name
    for member in dir(value):
        if member.startswith("_") and member not in ("__aenter__", "__enter__", "__call__", "__await__"):
            continue
        found = inspect.getattr_static(value, member)
        if _home(value, member).__module__.partition(".")[0] != "holdfast":
            continue
        if isinstance(found, classmethod | staticmethod):
            found = found.__func__
        yield f"{name}.{member}{_signature(found)}" if inspect.isroutine(found) else f"{name}.{member}"


def _home(value: type[Any], member: str) -> type[Any]:
    return next(base for base in value.__mro__ if member in vars(base))


def _signature(value: Any) -> str:
    """Names, kinds, and whether there is a default. What types and defaults are may change without breaking anybody."""
    parts = []
    for parameter in inspect.signature(value).parameters.values():
        given = "=" if parameter.default is not parameter.empty else ""
        parts.append(f"{_KINDS[parameter.kind]}{parameter.name}{given}")
    return f"({', '.join(parts)})"


_KINDS: Final = {
    inspect.Parameter.POSITIONAL_ONLY: "/",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.KEYWORD_ONLY: "-",
    inspect.Parameter.VAR_KEYWORD: "**",
}


if __name__ == "__main__":
    sys.stdout.write("\n".join(describe()) + "\n")
