"""The result table: one terminal envelope a job.

ENVELOPE-1. The first envelope stays. Whoever brings another one is told the status of the first, and by it that the two
    agree.
ENVELOPE-2. An envelope has a terminal status, at most 256 KiB of output, and the checksum of exactly these bytes.
"""

from typing import Final

from holdfast.designs.services.jobs import TERMINAL
from holdfast.rpc import limits
from holdfast.rpc.checks import check_job_id, check_text, shown
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.refusals import invalid
from holdfast.rpc.work import checksum

MAX_SUMMARY_CHARACTERS: Final = 2 * limits.MAX_REASON_CHARACTERS
"""A reason, and words around it."""


class ResultTable:
    """Fulfils ``protocols.Results`` in memory."""

    def __init__(self) -> None:
        self._results: dict[str, internal.GetResultResponse] = {}

    async def store_result(self, request: internal.StoreResultRequest) -> internal.StoreResultResponse:
        job_id = check_job_id(request.job_id)
        result = _checked(request)
        earlier = self._results.setdefault(job_id, result)
        return internal.StoreResultResponse(
            stored=earlier == result,
            already_exists=earlier is not result,
            current_terminal_status=earlier.terminal_status,
        )

    async def get_result(self, request: internal.GetResultRequest) -> internal.GetResultResponse:
        job_id = check_job_id(request.job_id)
        return self._results.get(job_id) or internal.GetResultResponse(found=False, job_id=job_id)


def _checked(request: internal.StoreResultRequest) -> internal.GetResultResponse:
    if request.terminal_status not in TERMINAL:
        raise invalid("terminal_status is not terminal; give DONE, FAILED or CANCELED", job_id=request.job_id)
    size = len(request.output_bytes)
    if size > limits.MAX_OUTPUT_BYTES:
        raise invalid(f"output_bytes has {size} bytes; at most {limits.MAX_OUTPUT_BYTES} are kept")
    check_text("output_summary", request.output_summary, MAX_SUMMARY_CHARACTERS)
    right = checksum(request.output_bytes)
    if request.checksum not in ("", right):
        raise invalid(f"checksum is {shown(request.checksum)}, but output_bytes has {right}; send both again")
    return internal.GetResultResponse(
        found=True,
        job_id=request.job_id,
        terminal_status=request.terminal_status,
        runtime_ms=request.runtime_ms,
        output_summary=request.output_summary,
        output_bytes=request.output_bytes,
        checksum=right,
    )
