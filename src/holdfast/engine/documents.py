"""Jobs, attempts, queues and workers as JSON, for every front door that speaks it. Times are ISO 8601, UTC."""

import base64
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from holdfast.core.commands import QueueStats, WorkerInfo
from holdfast.core.failures import Failure
from holdfast.core.job import LABELS, Attempt, Job
from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.core.views import view_of

Data = dict[str, Any]


def job_data(job: Job, *, attempts: Sequence[Attempt] | None = None) -> Data:
    """With its attempts where it stands alone; lists leave them out."""
    data = _job_data(job)
    return data if attempts is None else {**data, "attempts": [attempt_data(attempt) for attempt in attempts]}


def _job_data(job: Job) -> Data:
    return {
        "id": str(job.id),
        "type": job.type,
        "queue": job.queue,
        "state": job.state,
        "views": _view_data(job),
        "priority": job.priority.name,
        "attempt": job.attempt,
        "max_attempts": job.retry.max_attempts,
        "replays": job.replays,
        "payload": payload_value(job.payload),
        "result": result_value(job.result),
        "failure": failure_data(job.failure),
        "progress": None
        if job.progress is None
        else {"percent": job.progress.percent, "message": job.progress.message},
        "checkpoint": result_value(job.checkpoint),
        "cancel_requested": job.cancel_requested,
        "created_at": time_text(job.created_at),
        "updated_at": time_text(job.updated_at),
        "due_at": time_text(job.due_at),
        "scheduled_at": time_text(job.scheduled_at),
        "started_at": time_text(job.started_at),
        "completed_at": time_text(job.completed_at),
        "lifetime_ends_at": time_text(job.lifetime_ends_at),
        "timeouts": {
            "execution": job.timeouts.execution,
            "visibility": job.timeouts.visibility,
            "lifetime": job.timeouts.lifetime,
        },
        **{name: getattr(job, name) for name in LABELS},
        "tags": dict(job.tags),
        "dependencies": [{"id": str(one.job_id), "kind": one.kind} for one in job.dependencies],
        "ended_by": _text(job.ended_by),
        "spawned_by": _text(job.spawned_by),
        "lease": _lease_data(job),
    }


def _view_data(job: Job) -> Data:
    """What other vocabularies call its state."""
    view = view_of(job.state, was_started=job.lease_version > 0)
    return {"grpc": view.grpc, "lease": view.lease, "rest": view.rest, "task": view.task}


def _lease_data(job: Job) -> Data | None:
    if job.lease is None:
        return None
    return {"worker": str(job.lease.owner), "expires_at": time_text(job.lease.expires_at)}


def attempt_data(attempt: Attempt) -> Data:
    return {
        "id": str(attempt.id),
        "number": attempt.number,
        "previous_id": _text(attempt.previous_id),
        "worker": str(attempt.owner),
        "started_at": time_text(attempt.started_at),
        "ended_at": time_text(attempt.ended_at),
        "is_ended_by_holder": attempt.is_ended_by_holder,
        "failure": failure_data(attempt.failure),
    }


def failure_data(failure: Failure | None) -> Data | None:
    if failure is None:
        return None
    return {
        "category": failure.category,
        "error_type": failure.error_type,
        "message": failure.message,
        "code": failure.code,
        "trace": failure.trace,
    }


def queue_data(queue: QueueStats) -> Data:
    return {
        "name": queue.name,
        "is_paused": queue.is_paused,
        "counts": {state: queue.counts.get(state, 0) for state in State},
        "oldest_scheduled_at": time_text(queue.oldest_scheduled_at),
    }


def worker_data(worker: WorkerInfo) -> Data:
    return {
        "id": str(worker.id),
        "name": worker.name,
        "registered_at": time_text(worker.registered_at),
        "seen_at": time_text(worker.seen_at),
        "is_lost": worker.is_lost,
        "running": worker.running,
        "queues": list(worker.queues),
        "types": list(worker.types),
    }


def payload_value(payload: Payload) -> Any:
    """The JSON value; raw bytes as base64, and said to be so."""
    return payload.value() if payload.is_json else {"base64": base64.b64encode(payload.data).decode("ascii")}


def result_value(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def time_text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _text(value: object) -> str | None:
    return None if value is None else str(value)
