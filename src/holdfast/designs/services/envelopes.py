"""Terminal envelopes: what is kept of a job's end besides its status."""

from holdfast.rpc import limits
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.work import NO_BYTES_CHECKSUM, OUTPUT_TOO_LARGE, canceled_summary, checksum, failed_summary


def canceled(job_id: str, reason: str, *, runtime_ms: int = 0) -> internal.StoreResultRequest:
    return _empty(job_id, public.CANCELED, summary=canceled_summary(reason), runtime_ms=runtime_ms)


def failed(job_id: str, reason: str, *, summary: str = "", runtime_ms: int = 0) -> internal.StoreResultRequest:
    return _empty(job_id, public.FAILED, summary=summary or failed_summary(reason), runtime_ms=runtime_ms)


def reported(report: internal.ReportWorkOutcomeRequest) -> tuple[internal.StoreResultRequest, str]:
    """What a worker reported, and why it FAILED where it did. Output that is too large is a failure."""
    if len(report.output_bytes) > limits.MAX_OUTPUT_BYTES:
        words = f"{OUTPUT_TOO_LARGE}: {len(report.output_bytes)} bytes; at most {limits.MAX_OUTPUT_BYTES} are kept"
        return failed(report.job_id, "", summary=words, runtime_ms=report.runtime_ms), OUTPUT_TOO_LARGE
    if report.outcome == internal.CANCELED:
        return canceled(report.job_id, report.failure_reason, runtime_ms=report.runtime_ms), ""
    is_failed = report.outcome == internal.FAILED
    envelope = internal.StoreResultRequest(
        job_id=report.job_id,
        terminal_status=public.FAILED if is_failed else public.DONE,
        runtime_ms=report.runtime_ms,
        output_summary=report.output_summary or (failed_summary(report.failure_reason) if is_failed else ""),
        output_bytes=report.output_bytes,
        checksum=report.checksum or checksum(report.output_bytes),
    )
    return envelope, (report.failure_reason or "FAILED") if is_failed else ""


def _empty(
    job_id: str, status: public.JobStatus.ValueType, *, summary: str, runtime_ms: int
) -> internal.StoreResultRequest:
    return internal.StoreResultRequest(
        job_id=job_id,
        terminal_status=status,
        runtime_ms=runtime_ms,
        output_summary=summary,
        checksum=NO_BYTES_CHECKSUM,
    )
