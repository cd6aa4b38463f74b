"""The result table: ENVELOPE-1, ENVELOPE-2."""

from hashlib import sha256
from typing import Any

import pytest

from holdfast.designs.services.results import ResultTable
from holdfast.rpc import limits
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import Refusal
from tests.unit.designs.services.parts import new_id


async def store(table: ResultTable, job_id: str, **fields: Any) -> tuple[bool, bool, int]:
    fields = {"terminal_status": public.DONE, "output_bytes": b"abc", **fields}
    answer = await table.store_result(internal.StoreResultRequest(job_id=job_id, **fields))
    return answer.stored, answer.already_exists, answer.current_terminal_status


async def test_the_first_envelope_stays_and_a_conflict_says_its_status() -> None:
    """ENVELOPE-1."""
    table, job_id = ResultTable(), new_id()
    assert await store(table, job_id) == (True, False, public.DONE)
    assert await store(table, job_id) == (True, True, public.DONE)
    assert await store(table, job_id, output_bytes=b"other") == (False, True, public.DONE)
    assert await store(table, job_id, terminal_status=public.CANCELED) == (False, True, public.DONE)
    result = await table.get_result(internal.GetResultRequest(job_id=job_id))
    assert (result.found, result.terminal_status, result.output_bytes) == (True, public.DONE, b"abc")


@pytest.mark.parametrize("output", [b"", b"abc", bytes(limits.MAX_OUTPUT_BYTES)], ids=["none", "some", "most"])
async def test_the_checksum_is_always_there(output: bytes) -> None:
    """ENVELOPE-2."""
    table, job_id = ResultTable(), new_id()
    await store(table, job_id, output_bytes=output)
    result = await table.get_result(internal.GetResultRequest(job_id=job_id))
    assert result.checksum == sha256(output).hexdigest()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"terminal_status": public.RUNNING}, "terminal_status"),
        ({"terminal_status": public.JOB_STATUS_UNSPECIFIED}, "terminal_status"),
        ({"output_bytes": bytes(limits.MAX_OUTPUT_BYTES + 1)}, "output_bytes"),
        ({"checksum": sha256(b"abd").hexdigest()}, "checksum"),
        ({"job_id": "abc"}, "job_id"),
    ],
    ids=["running", "unspecified", "too-large", "other-checksum", "malformed"],
)
async def test_an_envelope_that_is_none_is_refused(fields: dict[str, Any], said: str) -> None:
    """ENVELOPE-2."""
    table = ResultTable()
    with pytest.raises(Refusal, match=said):
        await store(table, **{"job_id": new_id(), **fields})


async def test_a_result_that_is_not_there_is_not_found() -> None:
    answer = await ResultTable().get_result(internal.GetResultRequest(job_id=new_id()))
    assert not answer.found
