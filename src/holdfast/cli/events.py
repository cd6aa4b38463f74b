"""What has just happened to jobs, as lines: the newest jobs looked at again and again, and what is different told.

Made for eyes: between two reads a job may pass through states that are never seen, and old jobs are not looked at.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from rich.text import Text

from holdfast.cli import words
from holdfast.core.commands import Filter
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.engine.engine import Engine

LOOKED_AT: Final = 100
TOLD: Final = frozenset({State.RETRYING, State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED})
Seen = tuple[State, int]


class Events:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: dict[UUID, Seen] | None = None

    async def look(self) -> list[Text]:
        """What is new since the last look, oldest first."""
        page = await self._engine.read_page(Filter(), limit=LOOKED_AT)
        before, self._seen = self._seen, {job.id: (job.state, job.attempt) for job in page.jobs}
        if before is None:
            return []
        changed = [job for job in page.jobs if job.state in TOLD and before.get(job.id) != (job.state, job.attempt)]
        return [await self._line(job) for job in sorted(changed, key=lambda job: job.updated_at)]

    async def _line(self, job: Job) -> Text:
        text = stamped(job.updated_at)
        text.append(f"{words.safe(job.type)} ", style="bold")
        text.append_text(words.state(job.state))
        for part in self._parts(job):
            text.append(f"  {part}")
        failure = job.failure
        if job.state is State.RETRYING:
            attempts = await self._engine.read_attempts(job.id)
            failure = attempts[-1].failure if attempts else None
        if failure is not None:
            text.append(f"  {words.error(failure)}", style="dim")
        return text

    def _parts(self, job: Job) -> Iterator[str]:
        if job.state is State.COMPLETED and job.started_at and job.completed_at:
            yield f"in {words.duration((job.completed_at - job.started_at).total_seconds())}"
        if job.attempt > 1 or job.state is State.RETRYING:
            yield f"attempt {job.attempt} of {job.retry.max_attempts}"


def said(line: str) -> Text:
    """What somebody else says, with the time it came unless it says one itself."""
    has_time = re.match(r"\d\d:\d\d:\d\d ", line) is not None
    text = Text() if has_time else stamped(datetime.now(UTC))
    text.append(words.safe(line), style="dim")
    return text


def stamped(time: datetime) -> Text:
    return Text(f"{time.astimezone():%H:%M:%S} ", style="dim")
