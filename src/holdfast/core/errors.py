"""The errors a caller can meet, as a tree by what the caller should do.

::

    HoldfastError
    ├── UsageError              fix the call
    │   └── InvalidInput          one fault a field, all of them named
    ├── NotFound                no such thing (any more)
    │   ├── JobNotFound
    │   ├── WorkerNotFound        register (again) before claiming
    │   └── KeyNotFound
    ├── Conflict                the state of things forbids it
    │   ├── StaleLease            the lease was lost; drop the work
    │   ├── InvalidTransition     the transition table has no such row
    │   ├── IdempotencyConflict   the key belongs to another payload
    │   ├── DependencyConflict    replay the dependency instead
    │   └── KeyConflict           the ID belongs to another API key; make a new one
    ├── AccessDenied            show another API key
    │   ├── KeyRefused            it is no key, or good for nothing (any more)
    │   └── ScopeMissing          it is good, but not for this
    ├── JobFailed               the job whose result was asked for has none
    │   └── JobCancelled
    ├── WorkerStuck             handlers that do not return hold its slots; restart it
    ├── Unavailable             try again; safe to repeat
    └── ConfigError             fix the set-up
        ├── SchemaMissing
        └── SchemaMismatch

Every leaf has a stable ``code`` and carries its data as attributes. What handlers raise to classify a failure
(``TemporaryError``, ``PermanentError``) lives in ``failures``: those are answers, not faults of the queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final
from uuid import UUID

if TYPE_CHECKING:
    from holdfast.core.failures import Failure
    from holdfast.core.states import State


class HoldfastError(Exception):
    """The root: catch this to catch everything Holdfast raises on its own account."""

    code: ClassVar[str] = "holdfast_error"


class UsageError(HoldfastError):
    code = "usage_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong with one field; ``item`` is the position in a batch."""

    field: str
    problem: str
    limit: str | None = None
    item: int = 0
    subject: str | None = None
    """What the field belongs to, where that is no job of a batch."""

    def __str__(self) -> str:
        bound = f" (limit: {self.limit})" if self.limit is not None else ""
        return f"{self.subject or f'job {self.item}'}: {self.field}: {self.problem}{bound}"


class InvalidInput(UsageError):
    """Nothing was written; every fault of every item is in ``faults``."""

    code = "invalid_input"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(str(fault) for fault in self.faults))


class NotFound(HoldfastError):
    code = "not_found"


class JobNotFound(NotFound):
    code = "job_not_found"

    def __init__(self, job_id: UUID) -> None:
        self.job_id = job_id
        super().__init__(f"no job {job_id}: it was never accepted here, or its retention is over")


class WorkerNotFound(NotFound):
    code = "worker_not_found"

    def __init__(self, worker_id: UUID) -> None:
        self.worker_id = worker_id
        super().__init__(f"worker {worker_id} is not registered, or was given up for lost: register it, then claim")


class KeyNotFound(NotFound):
    code = "key_not_found"

    def __init__(self, key_id: UUID) -> None:
        self.key_id = key_id
        super().__init__(f"no API key {key_id}; `holdfast keys` lists them")


class Conflict(HoldfastError):
    code = "conflict"


class StaleLease(Conflict):
    """The token is not the job's current one: somebody else holds, or has ended, the job."""

    code = "stale_lease"

    def __init__(self, *, job_id: UUID, held_version: int, current_version: int | None) -> None:
        self.job_id = job_id
        self.held_version = held_version
        self.current_version = current_version
        super().__init__(
            f"the lease on job {job_id} is no longer valid (held version {held_version}, "
            f"current {current_version}); nothing was changed"
        )


class InvalidTransition(Conflict):
    code = "invalid_transition"

    def __init__(self, *, job_id: UUID, source: str | None, target: str, trigger: str) -> None:
        self.job_id = job_id
        self.source = source
        self.target = target
        self.trigger = trigger
        super().__init__(f"job {job_id} cannot go from {source} to {target} by {trigger}")


class IdempotencyConflict(Conflict):
    code = "idempotency_conflict"

    def __init__(self, *, job_type: str, key: str, existing_id: UUID, problem: str) -> None:
        self.job_type = job_type
        self.key = key
        self.existing_id = existing_id
        super().__init__(f"key {key!r} of {job_type!r} already belongs to job {existing_id}: {problem}")


class DependencyConflict(Conflict):
    code = "dependency_conflict"

    def __init__(self, *, job_id: UUID, dependency_id: UUID) -> None:
        self.job_id = job_id
        self.dependency_id = dependency_id
        super().__init__(
            f"job {job_id} ended because its dependency {dependency_id} did; "
            f"replay {dependency_id}, and this job comes back with it"
        )


class KeyConflict(Conflict):
    code = "key_conflict"

    def __init__(self, key_id: UUID) -> None:
        self.key_id = key_id
        super().__init__(f"another API key has the ID {key_id} already; make one with an ID of its own")


class AccessDenied(HoldfastError):
    """Nobody may pass. Says nothing of keys that the caller has not proved to hold."""

    code = "access_denied"


class Refusal(StrEnum):
    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    REVOKED = "revoked"
    EXPIRED = "expired"


_REFUSALS: Final = {
    Refusal.MALFORMED: "what was shown is not an API key: one reads hf_, 22 characters, _ and 43 more; was it cut off?",
    Refusal.UNKNOWN: "this API key is not known here; make one: holdfast keys create",
    Refusal.REVOKED: "this API key was revoked; make another one: holdfast keys create",
    Refusal.EXPIRED: "this API key has expired; make another one: holdfast keys create",
}


class KeyRefused(AccessDenied):
    """Nothing of what was shown is in the message: it may stand in a log."""

    code = "key_refused"

    def __init__(self, reason: Refusal) -> None:
        self.reason = reason
        super().__init__(_REFUSALS[reason])


class ScopeMissing(AccessDenied):
    code = "scope_missing"

    def __init__(self, *, scope: str, name: str) -> None:
        self.scope = scope
        self.name = name
        super().__init__(f"API key {name!r} is not good for {str(scope)!r}; show one that has this scope")


class JobFailed(HoldfastError):
    """The job ended without a result; ``failure`` says why, with the trace of the last attempt."""

    code = "job_failed"

    def __init__(self, *, job_id: UUID, state: "State", failure: "Failure | None") -> None:
        self.job_id = job_id
        self.state = state
        self.failure = failure
        super().__init__(f"job {job_id} ended {state}{_because(failure)}")


class JobCancelled(JobFailed):
    code = "job_cancelled"


def _because(failure: "Failure | None") -> str:
    if failure is None:
        return ""
    cause = ": ".join(part for part in (failure.error_type, failure.message.partition("\n")[0]) if part)
    return f": {failure.category}{f', {cause}' if cause else ''}"


class Unavailable(HoldfastError):
    """The store could not be asked, or its answer was lost. Every verb may be repeated as it was."""

    code = "unavailable"


class ConfigError(HoldfastError):
    code = "config_error"


class SchemaMissing(ConfigError):
    code = "schema_missing"


class SchemaMismatch(ConfigError):
    code = "schema_mismatch"


class WorkerStuck(HoldfastError):
    """Handlers that do not return hold half of a worker's slots: only a new process has them free again."""

    code = "worker_stuck"

    def __init__(self, *, handlers: str, slots: int) -> None:
        self.handlers = handlers
        self.slots = slots
        super().__init__(
            f"{slots} slots are held by handlers that did not return after they were ended: {handlers}; "
            "give them isolation='process', or let them look at ctx.cancelled"
        )
