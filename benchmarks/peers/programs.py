"""The programs of a system as processes: the producer, which is told what to do, and workers, which are watched.

They end with the harness whatever happens to it: a producer when its input ends, a worker because the system sends it
a signal when its parent is gone.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.catalogue import System, Variant
from benchmarks.peers.environments import REPOSITORY, Environment
from benchmarks.peers.usage import tree

STOP_TIMEOUT_SECONDS: Final = 10
PR_SET_PDEATHSIG: Final = 1


class PeerFailed(Exception):
    """A program of a system did not do what it was told; the message has the end of its output."""


def variables(variant: Variant, environment: Environment, given: Mapping[str, str]) -> dict[str, str]:
    return {
        **os.environ,
        **dict(environment.variables),
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "",
        **variant.environment,
        **given,
    }


def producer_command(system: System, environment: Environment, *, module: str | None = None) -> list[str]:
    if environment.node is not None:
        return [environment.node, str(system.folder / "produce.js")]
    return [str(environment.python), "-m", module or f"benchmarks.peers.systems.{system.name}.produce"]


def worker_command(system: System, variant: Variant, environment: Environment, *, url: str, queue: str) -> list[str]:
    words = {"bin": environment.bin, "node": environment.node, "folder": system.folder, "url": url, "queue": queue}
    return [part.format(**words) for part in variant.worker]


class Producer:
    """Use as a context manager."""

    def __init__(self, command: Sequence[str], *, variables: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=dict(variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def __enter__(self) -> "Producer":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, do: str, **arguments: object) -> dict[str, Any]:
        """Returns when it is done."""
        self.begin(do, **arguments)
        return self.answer()

    def begin(self, do: str, **arguments: object) -> None:
        assert self._process.stdin is not None
        try:
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
        except BrokenPipeError as error:
            raise PeerFailed(f"the producer ended: {tail(self._log)}") from error

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerFailed(f"the producer ended: {tail(self._log)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerFailed(f"the producer failed: {answer['error']}")
        return answer


class WorkerProgram:
    """One worker process with all that it starts; running when made, gone after ``stop``."""

    def __init__(self, command: Sequence[str], *, variables: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        if self._process.poll() is not None:
            raise PeerFailed(f"the worker ended with {self._process.returncode}: {tail(self._log)}")

    def finish(self) -> None:
        """In good order: what it has begun is done, what it only holds is given back."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise PeerFailed(f"the worker does not end: {tail(self._log)}") from error

    def stop(self) -> None:
        """At once: its place is dropped next, and nothing that it could still write there matters."""
        processes = tree(self.pid)
        self._process.kill()
        self._process.wait()
        for process in processes[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return " / ".join(lines[-3:])[-400:]
