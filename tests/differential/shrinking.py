"""Make a failing stream small: leave out commands, then parts of commands, as long as it fails in the same way."""

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, Final, TypeVar

MAX_SECONDS: Final = 60.0
Command = TypeVar("Command")
Run = Callable[[Sequence[Any]], Awaitable[object]]
"""Raises where a stream fails."""


async def shrink(commands: Sequence[Command], run: Run) -> list[Command]:
    shrinker = _Shrinker(run, await failure_of(commands, run))
    return await shrinker.simplify(await shrinker.leave_out(list(commands)))


async def failure_of(commands: Sequence[Any], run: Run) -> str | None:
    """The kind of failure, without the values that a shorter stream changes."""
    try:
        await run(commands)
    except Exception as problem:
        lines = [line for line in str(problem).splitlines() if not line.startswith("step ")]
        return type(problem).__name__ + re.sub(r"[0-9]|\(.*|:.*", "", " ".join(lines[:2]))
    return None


class _Shrinker:
    def __init__(self, run: Run, failure: str | None) -> None:
        self._run = run
        self._failure = failure
        self._ends_at = time.monotonic() + MAX_SECONDS

    async def _fails(self, commands: Sequence[Any]) -> bool:
        if self._failure is None or time.monotonic() > self._ends_at:
            return False
        return await failure_of(commands, self._run) == self._failure

    async def leave_out(self, kept: list[Command]) -> list[Command]:
        """First halves, then quarters, at last single commands."""
        size = len(kept) // 2
        while size >= 1:
            at = 0
            while at < len(kept):
                tried = kept[:at] + kept[at + size :]
                if await self._fails(tried):
                    kept = tried
                else:
                    at += size
            size //= 2
        return kept

    async def simplify(self, kept: list[Command]) -> list[Command]:
        """Field by field to its default, item by item away, while that finds anything."""
        is_simpler = True
        while is_simpler:
            is_simpler = False
            for at in range(len(kept)):
                for simpler in _simpler(kept[at]):
                    tried = [*kept[:at], simpler, *kept[at + 1 :]]
                    if await self._fails(tried):
                        kept, is_simpler = tried, True
                        break
        return kept


def _simpler(value: Any) -> Iterable[Any]:
    if isinstance(value, tuple):
        for at, item in enumerate(value):
            if len(value) > 1:
                yield (*value[:at], *value[at + 1 :])
            yield from ((*value[:at], one, *value[at + 1 :]) for one in _simpler(item))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            now, default = getattr(value, field.name), _default(field)
            if default is not MISSING and now != default:
                yield replace(value, **{field.name: default})
            yield from (replace(value, **{field.name: one}) for one in _simpler(now))


def _default(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def show(value: Any) -> str:
    """A command as it would be written by hand: only what is not at its default."""
    if isinstance(value, tuple):
        return "(" + "".join(show(item) + ", " for item in value).rstrip(" ") + ")"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(show(item) for item in value)) + "}"
    if is_dataclass(value) and not isinstance(value, type):
        given = [(f.name, getattr(value, f.name)) for f in fields(value) if getattr(value, f.name) != _default(f)]
        return f"{type(value).__name__}(" + ", ".join(f"{name}={show(one)}" for name, one in given) + ")"
    return str(value) if hasattr(value, "name") else repr(value)
