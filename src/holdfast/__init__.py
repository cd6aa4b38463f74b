"""Holdfast: a job queue for Python whose database is the truth.

The public names are found when they are first used: a command that only reads, or a child process, should not wait for
the import of an API that it does not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.app import BoundJobType, Call, Holdfast, JobHandle, JobType, Workflow, chain, fan_in, fan_out
    from holdfast.core.errors import (
        ConfigError,
        Conflict,
        HoldfastError,
        IdempotencyConflict,
        InvalidInput,
        JobCancelled,
        JobFailed,
        JobNotFound,
        Unavailable,
        UsageError,
    )
    from holdfast.core.failures import Category, PermanentError, TemporaryError
    from holdfast.core.job import Job
    from holdfast.core.priority import Priority
    from holdfast.core.retry import Retry
    from holdfast.core.states import State
    from holdfast.worker.context import Context
    from holdfast.worker.handler import Isolation
    from holdfast.worker.middleware import Middleware

__all__ = [
    "BoundJobType",
    "Call",
    "Category",
    "ConfigError",
    "Conflict",
    "Context",
    "Holdfast",
    "HoldfastError",
    "IdempotencyConflict",
    "InvalidInput",
    "Isolation",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobNotFound",
    "JobType",
    "Middleware",
    "PermanentError",
    "Priority",
    "Retry",
    "State",
    "TemporaryError",
    "Unavailable",
    "UsageError",
    "Workflow",
    "chain",
    "fan_in",
    "fan_out",
]

_HOMES: Final = {
    "holdfast.app": (
        "BoundJobType",
        "Call",
        "Holdfast",
        "JobHandle",
        "JobType",
        "Workflow",
        "chain",
        "fan_in",
        "fan_out",
    ),
    "holdfast.core.errors": (
        "ConfigError",
        "Conflict",
        "HoldfastError",
        "IdempotencyConflict",
        "InvalidInput",
        "JobCancelled",
        "JobFailed",
        "JobNotFound",
        "Unavailable",
        "UsageError",
    ),
    "holdfast.core.failures": ("Category", "PermanentError", "TemporaryError"),
    "holdfast.core.job": ("Job",),
    "holdfast.core.priority": ("Priority",),
    "holdfast.core.retry": ("Retry",),
    "holdfast.core.states": ("State",),
    "holdfast.worker.context": ("Context",),
    "holdfast.worker.handler": ("Isolation",),
    "holdfast.worker.middleware": ("Middleware",),
}
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    found = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
