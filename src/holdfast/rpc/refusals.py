"""How a server says no: a refusal is a status code and a message that says what to do.

Three tables, and no other place decides a code: who may raise a Refusal names its code, an error of the engine has one
by its kind, and an answer of another service becomes one by what it means to our own caller.
"""

from typing import Final

import grpc

from holdfast.core import errors
from holdfast.rpc import limits

Code = grpc.StatusCode

OF_ERRORS: Final[dict[type[errors.HoldfastError], grpc.StatusCode]] = {
    errors.UsageError: Code.INVALID_ARGUMENT,
    errors.NotFound: Code.NOT_FOUND,
    errors.Conflict: Code.FAILED_PRECONDITION,
    errors.AccessDenied: Code.PERMISSION_DENIED,
    errors.Unavailable: Code.UNAVAILABLE,
    # A set-up that has broken under a running server, and what no call of this API should ever meet.
    errors.ConfigError: Code.INTERNAL,
    errors.JobFailed: Code.INTERNAL,
    errors.WorkerStuck: Code.INTERNAL,
}
"""By the branches of the tree in ``core/errors.py``; a leaf has its branch's code."""

OF_ANSWERS: Final[dict[grpc.StatusCode, grpc.StatusCode]] = {
    Code.INVALID_ARGUMENT: Code.INVALID_ARGUMENT,
    Code.NOT_FOUND: Code.NOT_FOUND,
    Code.FAILED_PRECONDITION: Code.FAILED_PRECONDITION,
    Code.RESOURCE_EXHAUSTED: Code.RESOURCE_EXHAUSTED,
    # To our caller it is all one: the service behind us did not answer, and asking again may help.
    Code.UNAVAILABLE: Code.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED: Code.UNAVAILABLE,
    Code.CANCELLED: Code.UNAVAILABLE,
    Code.ABORTED: Code.UNAVAILABLE,
    # We have asked for what we may not, or what is not there: a fault of the servers, not of the caller.
    Code.PERMISSION_DENIED: Code.INTERNAL,
    Code.UNAUTHENTICATED: Code.INTERNAL,
    Code.UNIMPLEMENTED: Code.INTERNAL,
    Code.INTERNAL: Code.INTERNAL,
    Code.UNKNOWN: Code.INTERNAL,
    Code.DATA_LOSS: Code.INTERNAL,
    Code.ALREADY_EXISTS: Code.INTERNAL,
    Code.OUT_OF_RANGE: Code.INTERNAL,
}
"""The code of a downstream call → the code of ours."""


class Refusal(Exception):
    """An answer that is not OK."""

    def __init__(self, code: grpc.StatusCode, message: str, *, job_id: str = "") -> None:
        self.code = code
        self.message = shortened(message)
        self.job_id = job_id
        super().__init__(self.message)


def shortened(text: str) -> str:
    most = limits.MAX_MESSAGE_CHARACTERS
    return text if len(text) <= most else f"{text[: most - 1]}…"


def invalid(message: str, *, job_id: str = "") -> Refusal:
    return Refusal(Code.INVALID_ARGUMENT, message, job_id=job_id)


def not_found(job_id: str) -> Refusal:
    return Refusal(Code.NOT_FOUND, f"no job {job_id}: it was never accepted here, or is kept no longer", job_id=job_id)


def conflict(message: str, *, job_id: str = "") -> Refusal:
    return Refusal(Code.FAILED_PRECONDITION, message, job_id=job_id)


def key_conflict(key: str, *, job_id: str) -> Refusal:
    return conflict(
        f"client_request_id {key!r} belongs to job {job_id}, which has another spec; use a new key", job_id=job_id
    )


def unavailable(message: str, *, job_id: str = "") -> Refusal:
    return Refusal(Code.UNAVAILABLE, message, job_id=job_id)


def denied(message: str) -> Refusal:
    return Refusal(Code.PERMISSION_DENIED, message)


def of_error(error: errors.HoldfastError) -> Refusal:
    """What the engine could not do, as an answer."""
    job_id = getattr(error, "job_id", "")
    return Refusal(code_of(type(error)), str(error), job_id=str(job_id))


def code_of(kind: type[errors.HoldfastError]) -> grpc.StatusCode:
    return next((OF_ERRORS[base] for base in kind.__mro__ if base in OF_ERRORS), Code.INTERNAL)


def of_answer(error: grpc.aio.AioRpcError) -> Refusal:
    """What another service would not do, as an answer."""
    code = OF_ANSWERS.get(error.code(), Code.INTERNAL)
    said = error.details() or error.code().name
    if code is error.code():
        return Refusal(code, said)
    return Refusal(code, f"a service behind this one answered {error.code().name}: {said}")
