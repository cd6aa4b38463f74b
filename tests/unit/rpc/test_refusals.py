"""Every error and every answer of another service has its code, from one table each."""

from collections.abc import Iterator
from uuid import UUID

import grpc
import pytest

from holdfast.core import errors
from holdfast.rpc import limits
from holdfast.rpc.refusals import (
    OF_ANSWERS,
    OF_ERRORS,
    Refusal,
    code_of,
    denied,
    key_conflict,
    not_found,
    of_answer,
    of_error,
)

Code = grpc.StatusCode
JOB_ID = UUID("1b4e28ba-2fa1-4d3b-883f-0016d3cca427")
CONTRACT = {
    errors.UsageError: Code.INVALID_ARGUMENT,
    errors.InvalidInput: Code.INVALID_ARGUMENT,
    errors.JobNotFound: Code.NOT_FOUND,
    errors.IdempotencyConflict: Code.FAILED_PRECONDITION,
    errors.Unavailable: Code.UNAVAILABLE,
    errors.SchemaMismatch: Code.INTERNAL,
    errors.KeyRefused: Code.PERMISSION_DENIED,
}


def tree(kind: type[errors.HoldfastError]) -> Iterator[type[errors.HoldfastError]]:
    for below in kind.__subclasses__():
        yield below
        yield from tree(below)


def answer_of(code: grpc.StatusCode, details: str | None) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


@pytest.mark.parametrize("kind", sorted(tree(errors.HoldfastError), key=str))
def test_every_error_of_the_engine_has_a_code_of_its_branch(kind: type[errors.HoldfastError]) -> None:
    assert any(base in OF_ERRORS for base in kind.__mro__), f"{kind.__name__} is not in OF_ERRORS"
    assert code_of(kind) is not Code.OK


@pytest.mark.parametrize(("kind", "code"), CONTRACT.items())
def test_an_error_has_the_contract_s_code(kind: type[errors.HoldfastError], code: grpc.StatusCode) -> None:
    assert code_of(kind) is code


def test_every_answer_of_another_service_has_a_code() -> None:
    assert set(OF_ANSWERS) == set(Code) - {Code.OK}


@pytest.mark.parametrize("code", [Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.FAILED_PRECONDITION, Code.UNAVAILABLE])
def test_what_is_the_caller_s_to_mend_is_passed_on_as_it_is(code: grpc.StatusCode) -> None:
    refusal = of_answer(answer_of(code, "spec is missing"))
    assert (refusal.code, refusal.message) == (code, "spec is missing")


@pytest.mark.parametrize("code", [Code.DEADLINE_EXCEEDED, Code.CANCELLED])
def test_a_service_that_did_not_answer_is_unavailable(code: grpc.StatusCode) -> None:
    refusal = of_answer(answer_of(code, None))
    assert refusal.code is Code.UNAVAILABLE
    assert code.name in refusal.message


def test_what_only_the_servers_can_mend_is_internal() -> None:
    assert of_answer(answer_of(Code.PERMISSION_DENIED, "no")).code is Code.INTERNAL


def test_a_refusal_names_its_job() -> None:
    assert not_found(str(JOB_ID)).job_id == str(JOB_ID)
    assert of_error(errors.JobNotFound(JOB_ID)).job_id == str(JOB_ID)
    conflict = key_conflict("order-7", job_id=str(JOB_ID))
    assert (conflict.code, conflict.job_id) == (Code.FAILED_PRECONDITION, str(JOB_ID))
    assert "order-7" in conflict.message
    assert denied("no").job_id == ""


def test_a_message_is_cut_to_what_a_header_carries() -> None:
    refusal = Refusal(Code.INTERNAL, "x" * 100_000)
    assert len(refusal.message) == limits.MAX_MESSAGE_CHARACTERS
    assert refusal.message.endswith("…")
