"""The worker class, which ``oban start`` imports by its name."""

from typing import Any

from oban import worker

from benchmarks.peers import peer


@worker(queue="default")
class Noop:
    async def process(self, job: Any) -> None:
        peer.record(job.args)
