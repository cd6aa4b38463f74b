"""Clients that go on while a server is killed, and keep account of what they were told."""

import random
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

import grpc

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import LONG_SECONDS, Api, code_of, new_key, spec

ANSWER_SECONDS = 10.0
"""A call that takes longer has no answer: it ends in DEADLINE_EXCEEDED here, which no test takes for good."""
PAUSE_SECONDS = 0.01
THINKING_SECONDS = 0.05
CLIENTS = 4


CANCEL_EVERY = 3
"""Turns: in the last of them a client cancels its own job."""


class Load:
    """Each client submits a job with a new key, then asks about one of those that were accepted, and so on.

    Every third job is cancelled by its client. Those are kept apart: whether the cancel or the worker came first is
    nobody's promise, but that they end is.
    """

    def __init__(self, api: Api, *, ms: int = 2) -> None:
        self.given = spec("load", ms=ms, size=8)
        self.accepted: dict[str, str] = {}
        """Key → job ID, in the order of acceptance; without those that are cancelled."""
        self.canceled: dict[str, grpc.StatusCode] = {}
        """The ID of a job that was accepted and cancelled → what its cancel was answered with."""
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
        with self._lock:
            return self.submits.total() - self.submits[grpc.StatusCode.OK]

    def wait_for_accepted(self, more: int) -> None:
        self._wait(lambda: self.submits[grpc.StatusCode.OK], more, "accepted")

    def wait_for_refused(self, more: int) -> None:
        self._wait(lambda: self.refused, more, "refused")

    def wait_for_answers(self, more: int) -> None:
        self._wait(self._answers, more, "answered")

    def check_canceled(self, *, is_repeated: bool = False) -> None:
        """After the fault: every job whose cancel was asked for has ended, or is one whose record was lost.

        ``is_repeated``: where the queue's memory was lost, a client that sees no end asks for it once more.
        """
        assert grpc.StatusCode.OK in self.canceled.values(), "nothing was cancelled"
        for job_id in self.canceled:
            if code_of(lambda job_id=job_id: self._api.status(job_id)) is grpc.StatusCode.NOT_FOUND:  # type: ignore[misc]
                continue
            if is_repeated:
                self._api.cancel(job_id)
            assert self._api.ended(job_id).status in (pb.DONE, pb.CANCELED)

    def _answers(self) -> int:
        with self._lock:
            return self.submits.total()

    def _wait(self, look: Callable[[], int], more: int, what: str) -> None:
        enough, deadline = look() + more, time.monotonic() + LONG_SECONDS
        while look() < enough:
            assert time.monotonic() < deadline, f"never were {more} more submits {what}; so far: {self.submits}"
            time.sleep(PAUSE_SECONDS)

    def _run(self) -> None:
        for turn in count(1):
            if self._over.is_set():
                return
            if turn % CANCEL_EVERY:
                self._submit()
            else:
                self._submit_and_cancel()
            self._read()
            # Slower than the workers: what waits in the queue is what a fault has made wait.
            self._over.wait(THINKING_SECONDS)

    def _submit(self) -> None:
        key = new_key()
        job_id = self._submitted(key)
        if job_id:
            with self._lock:
                self.accepted[key] = job_id

    def _submit_and_cancel(self) -> None:
        job_id = self._submitted(new_key())
        if job_id:
            request = pb.CancelJobRequest(job_id=job_id, reason="every third")
            code = code_of(lambda: self._api.stub.CancelJob(request, timeout=ANSWER_SECONDS))
            with self._lock:
                self.canceled[job_id] = code

    def _submitted(self, key: str) -> str:
        """The ID of the job; none where it was refused."""
        request = pb.SubmitJobRequest(spec=self.given, client_request_id=key)
        code, job_id = grpc.StatusCode.OK, ""
        try:
            job_id = self._api.stub.SubmitJob(request, timeout=ANSWER_SECONDS).job_id
        except grpc.RpcError as error:
            code = error.code()
        with self._lock:
            self.submits[code] += 1
        return job_id

    def _read(self) -> None:
        with self._lock:
            job_ids = list(self.accepted.values())
        if not job_ids:
            return
        request = pb.GetJobStatusRequest(job_id=random.choice(job_ids))
        code = code_of(lambda: self._api.stub.GetJobStatus(request, timeout=ANSWER_SECONDS))
        with self._lock:
            self.reads[code] += 1
