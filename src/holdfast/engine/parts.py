"""A submit, checked before it is shared; of jobs that come in parts, each part as it is made.

Once for each job: a batch is looked over as a whole only for what no part shows, an ID or a key that stands twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.core import limits
from holdfast.core.batches import JobsInParts, are_plain
from holdfast.core.checks import require_valid_batch, require_valid_submit
from holdfast.core.commands import NewJob, Submit
from holdfast.core.errors import InvalidInput


def checked_submit(submit: Submit, *, payload_limit_bytes: int = limits.DEFAULT_PAYLOAD_BYTES) -> Submit:
    """The same submit. Raises InvalidInput with every fault of every job; for parts, when they are asked for."""
    if not isinstance(submit.jobs, JobsInParts):
        require_valid_submit(submit, payload_limit_bytes=payload_limit_bytes)
        return submit
    parts = _checked_parts(submit.jobs, payload_limit_bytes)
    return replace(submit, jobs=JobsInParts(next(parts), parts))


def _checked_parts(jobs: JobsInParts, payload_limit_bytes: int) -> Iterator[Sequence[NewJob]]:
    is_plain = True
    for part in jobs.parts():
        try:
            require_valid_submit(Submit(jobs=part), payload_limit_bytes=payload_limit_bytes)
        except InvalidInput:
            # All of it is made now, because every fault is named.
            require_valid_submit(Submit(jobs=jobs), payload_limit_bytes=payload_limit_bytes)
            raise
        is_plain = is_plain and are_plain(part)
        yield part
    ids = jobs.ids
    if not is_plain or len(ids) > limits.MAX_SUBMIT_JOBS or len({one.int for one in ids}) < len(ids):
        require_valid_batch(jobs)
