"""What a worker knows of a job type: the function, how it is to be run, and what may go wrong with it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from holdfast.core import limits
from holdfast.core.errors import UsageError
from holdfast.core.payload import Payload
from holdfast.core.retry import CustomDelay


class Isolation(StrEnum):
    """Where a handler runs."""

    LOOP = "loop"
    """A coroutine function, on the worker's event loop."""
    THREAD = "thread"
    """A plain function, in a thread; it cannot be killed."""
    PROCESS = "process"
    """Either, in a child process that is killed at its timeout."""


class Signature(Protocol):
    """How a payload becomes a call, and what it returns a result. Made where the job is defined."""

    @property
    def wants_context(self) -> bool:
        """The first argument is the Context."""
        ...

    def decode(self, payload: Payload) -> dict[str, Any]:
        """The keyword arguments; PermanentError where the payload does not fit."""
        ...

    def encode_result(self, value: Any) -> bytes | None:
        """What the function returned, as it is stored; PermanentError where it cannot be."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    name: str
    function: Callable[..., Any]
    isolation: Isolation
    is_async: bool
    signature: Signature
    execution_seconds: float = limits.DEFAULT_EXECUTION_SECONDS
    """The handler's own limit; a job's, when shorter, stands."""
    permanent: tuple[type[BaseException], ...] = ()
    custom_delay: CustomDelay | None = None
    """The function of ``Retry(custom=…)``, which no database can hold."""
    result_limit_bytes: int = limits.DEFAULT_RESULT_BYTES


class Registry(Mapping[str, Handler]):
    """The handlers of a program, by job type."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self.names: tuple[str, ...] = ()
        """The job types, made once: every claim names them."""
        self.find = self._handlers.get
        """One lookup, for every job: a Mapping's own ``get`` takes three."""

    def add(self, handler: Handler) -> None:
        other = self._handlers.get(handler.name)
        if other is not None and _place(other) != _place(handler):
            raise UsageError(
                f"two functions are called {handler.name!r}: {_place(other)} and {_place(handler)}; "
                "give one of them another name: @app.job(name=…)"
            )
        self._handlers[handler.name] = handler
        self.names = tuple(self._handlers)

    def __getitem__(self, name: str) -> Handler:
        return self._handlers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handlers)

    def __len__(self) -> int:
        return len(self._handlers)


def _place(handler: Handler) -> str:
    return f"{handler.function.__module__}.{handler.function.__qualname__}"
