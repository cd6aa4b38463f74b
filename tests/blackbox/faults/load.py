"""Clients that go on while a server is killed, and keep account of what they were told."""

import random
import time
from collections import Counter
from collections.abc import Callable
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

import grpc

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import LONG_SECONDS, Api, new_key, spec

ANSWER_SECONDS = 10.0
"""A call that takes longer has no answer: it ends in DEADLINE_EXCEEDED here, which no test takes for good."""
PAUSE_SECONDS = 0.01
CLIENTS = 4


class Load:
    """Each client submits a job with a new key, then asks about one of those that were accepted, and so on."""

    def __init__(self, api: Api, *, ms: int = 2) -> None:
        self.given = spec("load", ms=ms, size=8)
        self.accepted: dict[str, str] = {}
        """Key → job ID, in the order of acceptance."""
        self.submits: Counter[grpc.StatusCode] = Counter()
        self.reads: Counter[grpc.StatusCode] = Counter()
        self._api = api
        self._lock = Lock()
        self._over = Event()
        self._threads = [Thread(target=self._run, daemon=True) for _ in range(CLIENTS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    @property
    def refused(self) -> int:
        return sum(count for code, count in self.submits.items() if code is not grpc.StatusCode.OK)

    def wait_for_accepted(self, more: int) -> None:
        self._wait(lambda: self.submits[grpc.StatusCode.OK], more, "accepted")

    def wait_for_refused(self, more: int) -> None:
        self._wait(lambda: self.refused, more, "refused")

    def wait_for_answers(self, more: int) -> None:
        self._wait(lambda: self.submits.total(), more, "answered")

    def _wait(self, count: Callable[[], int], more: int, what: str) -> None:
        enough, deadline = count() + more, time.monotonic() + LONG_SECONDS
        while count() < enough:
            assert time.monotonic() < deadline, f"never were {more} more submits {what}; so far: {self.submits}"
            time.sleep(PAUSE_SECONDS)

    def _run(self) -> None:
        while not self._over.is_set():
            self._submit()
            self._read()
            # Slower than the workers: what waits in the queue is what a fault has made wait.
            self._over.wait(PAUSE_SECONDS)

    def _submit(self) -> None:
        key = new_key()
        request = pb.SubmitJobRequest(spec=self.given, client_request_id=key)
        try:
            answer = self._api.stub.SubmitJob(request, timeout=ANSWER_SECONDS)
        except grpc.RpcError as error:
            self.submits[error.code()] += 1
            return
        with self._lock:
            self.accepted[key] = answer.job_id
        self.submits[grpc.StatusCode.OK] += 1

    def _read(self) -> None:
        with self._lock:
            job_ids = list(self.accepted.values())
        if not job_ids:
            return
        try:
            request = pb.GetJobStatusRequest(job_id=random.choice(job_ids))
            self._api.stub.GetJobStatus(request, timeout=ANSWER_SECONDS)
        except grpc.RpcError as error:
            self.reads[error.code()] += 1
            return
        self.reads[grpc.StatusCode.OK] += 1
