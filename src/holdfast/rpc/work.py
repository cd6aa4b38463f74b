"""The work of a v1 job: it sleeps ``work_duration_ms`` and gives ``payload_size_bytes`` bytes.

Pure but for the sleep. Used by the workers of both designs and by the durable server, so that all of them do the same.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Final

from holdfast.rpc import limits
from holdfast.rpc.generated import taskqueue_public_pb2 as public

OUTPUT_TOO_LARGE: Final = "OUTPUT_TOO_LARGE"
WORKER_LOST: Final = "WORKER_LOST"
PATTERN: Final = b"0123456789abcdef"
NO_BYTES_CHECKSUM: Final = sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How a job's work ended; ``failure_reason`` is empty where it went well."""

    output_summary: str
    output_bytes: bytes = b""
    checksum: str = NO_BYTES_CHECKSUM
    runtime_ms: int = 0
    failure_reason: str = ""


Sleep = Callable[[float], Awaitable[object]]
"""Given the seconds."""


async def do_work(spec: public.JobSpec, *, sleep: Sleep = asyncio.sleep) -> Output:
    """``sleep`` may raise, which ends the work."""
    if spec.payload_size_bytes > limits.MAX_OUTPUT_BYTES:
        return too_large(spec.payload_size_bytes)
    began = monotonic()
    if spec.work_duration_ms:
        await sleep(spec.work_duration_ms / 1000)
    output = make_bytes(spec.payload_size_bytes)
    return Output(
        output_summary=f"{spec.job_type}: {len(output)} bytes",
        output_bytes=output,
        checksum=checksum(output),
        runtime_ms=int((monotonic() - began) * 1000),
    )


def too_large(size_bytes: int) -> Output:
    """Refused before a byte of it is made."""
    summary = f"{OUTPUT_TOO_LARGE}: payload_size_bytes is {size_bytes}; at most {limits.MAX_OUTPUT_BYTES} are kept"
    return Output(output_summary=summary, failure_reason=OUTPUT_TOO_LARGE)


def make_bytes(size: int) -> bytes:
    """The same for the same size."""
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


def checksum(data: bytes) -> str:
    return sha256(data).hexdigest() if data else NO_BYTES_CHECKSUM


def canceled_summary(reason: str) -> str:
    return f"canceled: {reason}" if reason else "canceled"


def failed_summary(reason: str) -> str:
    return f"failed: {reason}" if reason else "failed"
