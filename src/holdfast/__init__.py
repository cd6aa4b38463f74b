"""Holdfast: a job queue for Python whose database is the truth."""

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
