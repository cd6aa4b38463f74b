"""The work of a v1 job."""

from hashlib import sha256

import pytest

from holdfast.rpc import limits, work
from holdfast.rpc.generated import taskqueue_public_pb2 as public


class Clock:
    """Sleeps by noting it."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def spec(*, ms: int = 0, size: int = 0) -> public.JobSpec:
    return public.JobSpec(job_type="resize", work_duration_ms=ms, payload_size_bytes=size)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 100_000, limits.MAX_OUTPUT_BYTES])
async def test_the_output_has_the_size_asked_for_and_its_checksum(size: int) -> None:
    output = await work.do_work(spec(size=size))
    assert len(output.output_bytes) == size
    assert output.checksum == sha256(output.output_bytes).hexdigest()
    assert output.failure_reason == ""
    assert output.output_summary == f"resize: {size} bytes"
    assert output.output_bytes == (await work.do_work(spec(size=size))).output_bytes


async def test_it_sleeps_as_long_as_asked_and_not_at_all_for_nothing() -> None:
    clock = Clock()
    await work.do_work(spec(ms=1500), sleep=clock.sleep)
    await work.do_work(spec(), sleep=clock.sleep)
    assert clock.slept == [1.5]


@pytest.mark.parametrize("size", [limits.MAX_OUTPUT_BYTES + 1, 2**32 - 1])
async def test_too_large_an_output_is_refused_before_it_is_made(size: int) -> None:
    clock = Clock()
    output = await work.do_work(spec(ms=60_000, size=size), sleep=clock.sleep)
    assert output.failure_reason == "OUTPUT_TOO_LARGE"
    assert output.output_summary.startswith("OUTPUT_TOO_LARGE")
    assert (output.output_bytes, output.checksum) == (b"", sha256(b"").hexdigest())
    assert clock.slept == []


async def test_what_ends_the_sleep_ends_the_work() -> None:
    async def stop(_: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        await work.do_work(spec(ms=10), sleep=stop)


def test_a_summary_says_why() -> None:
    assert work.canceled_summary("no longer needed") == "canceled: no longer needed"
    assert work.canceled_summary("") == "canceled"
    assert work.failed_summary("WORKER_LOST") == "failed: WORKER_LOST"
