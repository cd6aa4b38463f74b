"""How a test gets a job that waits, in a design whose workers are never asked to stop."""

import time

from tests.blackbox.api import Api, spec

BLOCKING_MS = 1200
FRESH_SECONDS = 0.4
"""So much later there is still far more time left than a test needs."""


class Blocker:
    """Keeps every slot behind one address busy. Tests that follow each other soon share one set of blocking jobs."""

    def __init__(self, api: Api, *, slots: int) -> None:
        self._api = api
        self._slots = slots
        self._job_ids: list[str] = []
        self._fresh_until = 0.0

    def hold(self) -> list[str]:
        """The IDs of the jobs that run."""
        if time.monotonic() < self._fresh_until:
            return self._job_ids
        for job_id in self._job_ids:
            self._api.ended(job_id)
        began = time.monotonic()
        answers = self._api.submit_many([spec("blocker", ms=BLOCKING_MS)] * self._slots)
        self._job_ids = [answer.job_id for answer in answers]
        for job_id in self._job_ids:
            self._api.started(job_id)
        self._fresh_until = began + FRESH_SECONDS
        return self._job_ids
