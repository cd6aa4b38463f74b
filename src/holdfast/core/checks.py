"""Bad input, found before a store is asked: by the engine, once (PORT-5).

Each check yields faults that name the field, what is wrong and the limit; a batch collects the faults of all its
items and is refused as a whole. What needs the database (does the dependency exist, has the key another payload, is
``run_at`` behind the end of the lifetime) is checked inside the transaction instead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from functools import lru_cache
from math import inf
from operator import attrgetter, is_
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.access import DIGEST_BYTES, NewKey, Scope
from holdfast.core.batches import JobColumns
from holdfast.core.commands import (
    EQUAL,
    Claim,
    ClaimIds,
    Completed,
    Failed,
    Filter,
    Fire,
    HandedBack,
    NewJob,
    Report,
    Settlement,
    Submit,
    Tick,
)
from holdfast.core.dependencies import are_dependencies, order, shape_faults
from holdfast.core.errors import Fault, InvalidInput
from holdfast.core.faults import (
    datetime_faults,
    id_faults,
    is_number,
    line_faults,
    queue_faults,
    seconds_faults,
    text_faults,
)
from holdfast.core.job import FIELDS, LABELS, Progress, Timeouts
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.retry import Retry


def require_valid_submit(submit: Submit, *, payload_limit_bytes: int = limits.DEFAULT_PAYLOAD_BYTES) -> None:
    """Raise InvalidInput with every fault of every job."""
    if isinstance(submit.jobs, JobColumns):
        if _are_usual(submit.jobs, payload_limit_bytes):
            return
    elif len(submit.jobs) == 1 and _is_usual(submit.jobs[0], payload_limit_bytes):
        return
    faults = [
        fault
        for index, job in enumerate(submit.jobs)
        if not _is_usual(job, payload_limit_bytes)
        for fault in _job_faults(index, job, payload_limit_bytes)
    ]
    faults += _batch_faults(submit.jobs)
    if faults:
        raise InvalidInput(faults)


def require_valid_batch(jobs: Sequence[NewJob]) -> None:
    """What is wrong with the whole of them, and not with any one."""
    if faults := list(_batch_faults(jobs)):
        raise InvalidInput(faults)


_LOOKED_AT: Final = ("id", "type", "queue", "payload", "priority", "tags")
"""What nearly every job gives, and what has no one default."""
_REST: Final = {one.name: one.default for one in fields(NewJob) if one.name not in _LOOKED_AT}
_rest: Final = attrgetter(*_REST)
_DEFAULTS: Final = tuple(_REST.values())


def _is_usual(job: NewJob, payload_limit_bytes: int) -> bool:
    """Nearly every job leaves nearly everything at its default: then nothing else can be wrong with it."""
    return (
        type(job.id) is UUID
        and type(job.type) is type(job.queue) is str
        and _are_good_names(job.type, job.queue)
        and type(job.payload) is Payload
        and len(job.payload.data) <= payload_limit_bytes
        and type(job.priority) is Priority
        and not job.tags
        # The default itself, not what is equal to it: that might be of another type.
        and all(map(is_, _rest(job), _DEFAULTS))
    )


def _are_usual(jobs: JobColumns, payload_limit_bytes: int) -> bool:
    return (
        _is_usual(jobs.first, payload_limit_bytes)
        and len(jobs.payloads) == len(jobs) <= limits.MAX_SUBMIT_JOBS
        and set(map(type, jobs.ids)) == {UUID}
        and set(map(type, jobs.payloads)) == {Payload}
        and max([len(payload.data) for payload in jobs.payloads]) <= payload_limit_bytes
        and len({job_id.int for job_id in jobs.ids}) == len(jobs)
    )


def _job_faults(index: int, job: NewJob, payload_limit_bytes: int) -> Iterable[Fault]:
    if type(job.id) is not UUID:
        yield from id_faults(index, job.id)
    if not (type(job.type) is type(job.queue) is str and _are_good_names(job.type, job.queue)):
        yield from text_faults(index, "type", job.type, limits.MAX_TYPE_CHARACTERS)
        yield from queue_faults(index, "queue", job.queue)
    if type(job.payload) is not Payload or len(job.payload.data) > payload_limit_bytes:
        yield from _payload_faults(index, job.payload, payload_limit_bytes)
    if type(job.priority) is not Priority:
        yield from _priority_faults(index, job.priority)
    if job.tags:
        yield from _tag_faults(index, job.tags)
    for name, default in _REST.items():
        if getattr(job, name) is not default:
            yield from _CHECKS[name](index, job)


@lru_cache(maxsize=1000)
def _are_good_names(job_type: str, queue: str) -> bool:
    """There are few of them, and they come with every job."""
    faults = [*text_faults(0, "type", job_type, limits.MAX_TYPE_CHARACTERS), *queue_faults(0, "queue", queue)]
    return not faults


def _retry_faults(index: int, retry: Any) -> Iterable[Fault]:
    if not isinstance(retry, Retry):
        yield Fault(item=index, field="retry", problem=f"is {type(retry).__name__}, not a Retry")
        return
    for fault in retry.faults():
        yield Fault(item=index, field=fault.field, problem=fault.problem, limit=fault.limit)


def _payload_faults(index: int, payload: Any, limit_bytes: int) -> Iterable[Fault]:
    if not isinstance(payload, Payload):
        yield Fault(item=index, field="payload", problem=f"is {type(payload).__name__}, not a Payload")
    elif len(payload.data) > limit_bytes:
        yield Fault(
            item=index,
            field="payload",
            problem=f"has {len(payload.data)} bytes; keep large data elsewhere and pass a reference",
            limit=f"{limit_bytes} bytes, configurable to {limits.MAX_PAYLOAD_BYTES}",
        )


def _priority_faults(index: int, priority: Any) -> Iterable[Fault]:
    if not isinstance(priority, Priority):
        yield Fault(item=index, field="priority", problem=f"is {priority!r}", limit="0 CRITICAL … 4 BULK")


def _delay_faults(index: int, job: NewJob) -> Iterable[Fault]:
    yield from seconds_faults(index, "delay_seconds", job.delay_seconds, least=0.0, most=limits.MAX_DELAY_SECONDS)
    if job.run_at is None and is_number(job.delay_seconds) and job.delay_seconds > _lifetime_seconds(job.timeouts):
        yield Fault(
            item=index,
            field="delay_seconds",
            problem="lies behind the end of the job's lifetime",
            limit=f"timeouts.lifetime, {job.timeouts.lifetime} s",
        )


def _run_at_faults(index: int, job: NewJob) -> Iterable[Fault]:
    yield from datetime_faults(index, "run_at", job.run_at)
    if job.delay_seconds:
        yield Fault(item=index, field="run_at", problem="and delay_seconds exclude each other")


def _lifetime_seconds(timeouts: Any) -> float:
    lifetime: Any = getattr(timeouts, "lifetime", None)
    # One that is no number is a fault of its own; beside it nothing is said of the delay.
    return lifetime if is_number(lifetime) else inf


def _timeout_faults(index: int, timeouts: Any) -> Iterable[Fault]:
    if not isinstance(timeouts, Timeouts):
        yield Fault(item=index, field="timeouts", problem=f"are {type(timeouts).__name__}, not Timeouts")
        return
    for name in ("execution", "visibility", "lifetime"):
        value = getattr(timeouts, name)
        yield from seconds_faults(index, f"timeouts.{name}", value, least=0.001, most=limits.MAX_TIMEOUT_SECONDS)


def _tag_faults(index: int, tags: Any) -> Iterable[Fault]:
    if not isinstance(tags, Mapping):
        yield Fault(item=index, field="tags", problem=f"are {type(tags).__name__}, not a map of text to text")
        return
    if len(tags) > limits.MAX_TAGS:
        yield Fault(item=index, field="tags", problem=f"are {len(tags)}", limit=f"{limits.MAX_TAGS} a job")
    for name, value in tags.items():
        yield from text_faults(index, "tags", name, limits.MAX_TAG_CHARACTERS)
        yield from text_faults(index, f"tags[{name!r}]", value, limits.MAX_TAG_CHARACTERS)


def _label_faults(index: int, name: str, text: Any) -> Iterable[Fault]:
    most = FIELDS[name].max_characters
    assert most is not None
    return () if text is None else text_faults(index, name, text, most)


def _callback_faults(index: int, job: NewJob) -> Iterable[Fault]:
    url: Any = job.callback_url
    yield from _label_faults(index, "callback_url", url)
    if isinstance(url, str) and not url.startswith(("http://", "https://")):
        yield Fault(item=index, field="callback_url", problem="is not an http or https address")


def _window_faults(index: int, job: NewJob) -> Iterable[Fault]:
    # Without a key it says nothing.
    if job.key is not None:
        yield from seconds_faults(
            index, "key_window_seconds", job.key_window_seconds, most=limits.MAX_KEY_WINDOW_SECONDS
        )


Check = Callable[[int, NewJob], Iterable[Fault]]


def _label_check(name: str) -> Check:
    return lambda index, job: _label_faults(index, name, getattr(job, name))


_CHECKS: Final[Mapping[str, Check]] = {
    **{name: _label_check(name) for name in LABELS},
    "callback_url": _callback_faults,
    "key_window_seconds": _window_faults,
    "delay_seconds": _delay_faults,
    "run_at": _run_at_faults,
    "timeouts": lambda index, job: _timeout_faults(index, job.timeouts),
    "retry": lambda index, job: _retry_faults(index, job.retry),
    "dependencies": lambda index, job: shape_faults(index, job.id, job.dependencies),
}
"""Of each field that is not looked at by itself; a field that is in neither fails when this module is loaded."""
assert _CHECKS.keys() == _REST.keys()


def _batch_faults(jobs: Sequence[NewJob]) -> Iterable[Fault]:
    if not jobs:
        yield Fault(field="jobs", problem="are none")
    if len(jobs) > limits.MAX_SUBMIT_JOBS:
        yield Fault(field="jobs", problem=f"are {len(jobs)} in one submit", limit=str(limits.MAX_SUBMIT_JOBS))
    if len(jobs) < 2:
        return
    # The numbers behind the IDs: a UUID takes far longer to hash.
    if len({getattr(job.id, "int", job.id) for job in jobs}) < len(jobs):
        yield Fault(field="id", problem="stands twice in the batch")
    keys = [(job.type, job.key) for job in jobs if job.key is not None]
    if len(set(keys)) < len(keys):
        yield Fault(field="key", problem="stands twice in the batch for one job type")
    if any(job.dependencies for job in jobs) and all(are_dependencies(job.dependencies) for job in jobs):
        _, cyclic = order({job.id: job.dependencies for job in jobs})
        indexes = {job.id: index for index, job in enumerate(jobs)}
        for job_id in cyclic:
            yield Fault(item=indexes[job_id], field="dependencies", problem="lie on a cycle, or behind one")


def require_valid_claim(claim: Claim) -> None:
    faults = []
    if not 1 <= claim.limit <= limits.MAX_CLAIM_JOBS:
        faults.append(Fault(field="limit", problem=f"is {claim.limit}", limit=f"1 … {limits.MAX_CLAIM_JOBS}"))
    faults += _claim_faults(claim)
    if faults:
        raise InvalidInput(faults)


def require_valid_claim_ids(claim: ClaimIds) -> None:
    faults = []
    if not 1 <= len(claim.ids) <= limits.MAX_CLAIM_JOBS:
        faults.append(Fault(field="ids", problem=f"are {len(claim.ids)}", limit=f"1 … {limits.MAX_CLAIM_JOBS}"))
    if len(set(claim.ids)) < len(claim.ids):
        faults.append(Fault(field="ids", problem="name one job twice"))
    faults += _claim_faults(claim)
    if faults:
        raise InvalidInput(faults)


def _claim_faults(claim: Claim | ClaimIds) -> list[Fault]:
    faults = []
    if not 1 <= len(claim.queues) <= limits.MAX_CLAIM_QUEUES:
        faults.append(Fault(field="queues", problem=f"are {len(claim.queues)}", limit=f"1 … {limits.MAX_CLAIM_QUEUES}"))
    if len(set(claim.queues)) < len(claim.queues):
        faults.append(Fault(field="queues", problem="name one queue twice"))
    for queue in claim.queues:
        faults += queue_faults(0, "queues", queue)
    if claim.types is not None:
        faults += _types_faults(claim.types)
    return faults


@lru_cache(maxsize=64)
def _types_faults(types: tuple[str, ...]) -> tuple[Fault, ...]:
    """Every claim of a worker names the same ones."""
    return tuple(fault for name in types for fault in text_faults(0, "types", name, limits.MAX_TYPE_CHARACTERS))


def require_valid_page(where: Filter, *, limit: int) -> None:
    """A question that no job could answer is a mistake in the question."""
    faults = []
    if not 1 <= limit <= limits.MAX_PAGE_JOBS:
        faults.append(Fault(field="limit", problem=f"is {limit}", limit=f"1 … {limits.MAX_PAGE_JOBS}"))
    if where.queue is not None:
        faults += queue_faults(0, "queue", where.queue)
    if where.type is not None:
        faults += text_faults(0, "type", where.type, limits.MAX_TYPE_CHARACTERS)
    for name in EQUAL:
        if name in LABELS:
            faults += _label_faults(0, name, getattr(where, name))
    for text in where.tag or ():
        faults += text_faults(0, "tag", text, limits.MAX_TAG_CHARACTERS)
    for field, value in (("created_from", where.created_from), ("created_until", where.created_until)):
        if value is not None:
            faults += datetime_faults(0, field, value)
    if faults:
        raise InvalidInput(faults)


def require_valid_ids(ids: Sequence[UUID]) -> None:
    if not all(isinstance(one, UUID) for one in ids):
        raise InvalidInput([fault for index, one in enumerate(ids) for fault in id_faults(index, one)])


def require_valid_queue(queue: str) -> None:
    if faults := list(queue_faults(0, "queue", queue)):
        raise InvalidInput(faults)


def require_valid_worker(name: str, *, queues: Sequence[str] = (), types: Sequence[str] = ()) -> None:
    faults = list(text_faults(0, "name", name, limits.MAX_WORKER_NAME_CHARACTERS))
    for field, texts, most in (("queues", queues, limits.MAX_WORKER_QUEUES), ("types", types, limits.MAX_WORKER_TYPES)):
        faults += _list_faults(field, texts, most)
    if faults:
        raise InvalidInput(faults)


def _list_faults(field: str, texts: Any, most: int) -> Iterable[Fault]:
    if not isinstance(texts, tuple | list):
        yield Fault(field=field, problem=f"are {type(texts).__name__}, not a sequence of text")
        return
    if len(texts) > most:
        yield Fault(field=field, problem=f"are {len(texts)}", limit=str(most))
    for text in texts:
        if field == "queues":
            yield from queue_faults(0, field, text)
        else:
            yield from text_faults(0, field, text, limits.MAX_TYPE_CHARACTERS)


def require_valid_key(new: NewKey) -> None:
    faults = [*id_faults(0, new.id), *line_faults(0, "name", new.name, limits.MAX_API_KEY_NAME_CHARACTERS)]
    faults += _scope_faults(new.scopes)
    faults += _digest_faults(new.digest)
    if new.expires_in_seconds is not None:
        longest = limits.MAX_API_KEY_SECONDS
        faults += seconds_faults(0, "expires_in_seconds", new.expires_in_seconds, least=0.001, most=longest)
    if faults:
        raise InvalidInput([replace(fault, subject="key") for fault in faults])


def _scope_faults(scopes: Any) -> Iterable[Fault]:
    known = ", ".join(Scope)
    if not isinstance(scopes, frozenset):
        yield Fault(field="scopes", problem=f"are {type(scopes).__name__}, not a frozenset of Scope", limit=known)
    elif not scopes:
        yield Fault(field="scopes", problem="are none", limit=known)
    else:
        for scope in sorted((one for one in scopes if not isinstance(one, Scope)), key=repr):
            yield Fault(field="scopes", problem=f"name {scope!r}, which is not a Scope", limit=known)


def _digest_faults(digest: Any) -> Iterable[Fault]:
    if not isinstance(digest, bytes) or len(digest) != DIGEST_BYTES:
        yield Fault(field="digest", problem="is not a SHA-256", limit=f"{DIGEST_BYTES} bytes")


def require_valid_key_id(key_id: UUID) -> None:
    if faults := list(id_faults(0, key_id)):
        raise InvalidInput([replace(fault, subject="key") for fault in faults])


def require_valid_fires(fires: Sequence[Fire]) -> None:
    """What is wrong with the call as a whole; what is wrong with one of them is that one's answer."""
    if len(fires) > limits.MAX_FIRES:
        raise InvalidInput([Fault(field="fires", problem=f"are {len(fires)} in one call", limit=str(limits.MAX_FIRES))])
    names = [fire.name for fire in fires]
    if len(set(names)) < len(names):
        raise InvalidInput([Fault(field="name", problem="stands twice in one call")])


def require_valid_fire(index: int, fire: Fire) -> None:
    faults = list(text_faults(index, "name", fire.name, limits.MAX_CRON_NAME_CHARACTERS))
    faults += _slot_faults(index, fire.slot)
    if fire.job is not None:
        faults += _job_faults(index, fire.job, limits.DEFAULT_PAYLOAD_BYTES)
    if faults:
        raise InvalidInput(faults)


def _slot_faults(index: int, slot: Any) -> Iterable[Fault]:
    yield from datetime_faults(index, "slot", slot)
    # The ends of the calendar have no time in every zone.
    if isinstance(slot, datetime) and not 1970 <= slot.year < 9999:
        yield Fault(item=index, field="slot", problem=f"is in the year {slot.year}", limit="1970 … 9998")


def require_valid_tick(tick: Tick) -> None:
    if not 1 <= tick.batch <= limits.MAX_TICK_JOBS:
        raise InvalidInput([Fault(field="batch", problem=f"is {tick.batch}", limit=f"1 … {limits.MAX_TICK_JOBS}")])


def require_valid_progress(progress: Progress) -> None:
    faults = []
    if not 0 <= progress.percent <= 100:
        faults.append(Fault(field="progress.percent", problem=f"is {progress.percent}", limit="0 … 100"))
    if progress.message:
        faults += text_faults(0, "progress.message", progress.message, limits.MAX_PROGRESS_MESSAGE_CHARACTERS)
    if faults:
        raise InvalidInput(faults)


def require_valid_settlement(settlement: Settlement) -> None:
    """Only what a database could not store, or time could not reach: the rest was the holder's to decide."""
    if settlement.progress is not None:
        require_valid_progress(settlement.progress)
    faults: list[Fault] = []
    match settlement.outcome:
        case Failed(retry_in_seconds=seconds) if seconds is not None:
            faults += seconds_faults(0, "retry_in_seconds", seconds, most=limits.MAX_DELAY_SECONDS)
        case HandedBack(due_in_seconds=seconds):
            faults += seconds_faults(0, "due_in_seconds", seconds, most=limits.MAX_DELAY_SECONDS)
        case Completed(result=result) if result is not None and len(result) > limits.MAX_RESULT_BYTES:
            faults.append(
                Fault(field="result", problem=f"has {len(result)} bytes", limit=f"{limits.MAX_RESULT_BYTES} bytes")
            )
        case Completed(spawn=spawn) if len(spawn) > limits.MAX_SPAWNED:
            faults.append(Fault(field="spawn", problem=f"are {len(spawn)} jobs", limit=str(limits.MAX_SPAWNED)))
        case Completed(spawn=spawn) if spawn:
            require_valid_submit(Submit(jobs=spawn))
        case _:
            return
    if faults:
        raise InvalidInput(faults)


def require_valid_report(report: Report) -> None:
    if report.progress is not None:
        require_valid_progress(report.progress)
    if report.checkpoint is not None and len(report.checkpoint) > limits.MAX_CHECKPOINT_BYTES:
        size = len(report.checkpoint)
        raise InvalidInput(
            [Fault(field="checkpoint", problem=f"has {size} bytes", limit=f"{limits.MAX_CHECKPOINT_BYTES} bytes")]
        )


def run_at_fault(index: int, *, run_at: datetime, lifetime_ends_at: datetime) -> Fault | None:
    """A job may not be due after it has to be over."""
    if run_at <= lifetime_ends_at:
        return None
    return Fault(
        item=index,
        field="run_at",
        problem=f"lies behind the end of the job's lifetime, {lifetime_ends_at.isoformat()}",
        limit="timeouts.lifetime",
    )
