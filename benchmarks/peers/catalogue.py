"""The systems that are measured, as each one's ``system.toml`` describes it.

The rest of the harness names no system, but for ``required.py``, which says what is required against whom.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

SYSTEMS: Final = Path(__file__).parent / "systems"
MEASURES: Final = {
    "postgres": ("drain", "submits", "bulk", "steady", "latency", "rest"),
    "sqlite": ("drain", "latency", "rest"),
    "redis": ("drain",),
    "rabbitmq": ("drain",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A system in one setting: what a line of the table is about."""

    name: str
    store: str
    worker: tuple[str, ...]
    """The command; ``{bin}``, ``{node}``, ``{folder}``, ``{url}`` and ``{queue}`` are filled in."""
    drain_jobs: int
    """About three seconds' worth on the machine of the first figures."""
    durability: str
    keeps: str
    settings: str
    pending: str | None = None
    """SQL, or a script for Redis: how many jobs are not terminal yet. None: the broker's queue is asked."""
    kept: str | None = None
    """SQL: how many finished jobs there is something left of."""
    environment: Mapping[str, str] = field(default_factory=dict)
    measures: tuple[str, ...]
    """By name; those of its store unless its file says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    name: str
    title: str
    runtime: str
    """``python``, ``node``, or ``project`` for the environment of Holdfast itself."""
    variants: tuple[Variant, ...]
    python: str = "3.11"
    """The oldest Python it runs on."""

    @property
    def folder(self) -> Path:
        return SYSTEMS / self.name


def read_systems() -> tuple[System, ...]:
    return tuple(_read(path) for path in sorted(SYSTEMS.glob("*/system.toml")))


def _read(path: Path) -> System:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    variants = tuple(_variant(values) for values in data.pop("variants"))
    return System(name=path.parent.name, variants=variants, **data)


def _variant(values: Mapping[str, Any]) -> Variant:
    measures = values.get("measures", MEASURES[values["store"]])
    return Variant(**{**values, "worker": tuple(values["worker"]), "measures": tuple(measures)})
