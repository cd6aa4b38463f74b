"""The proof that a worker's process lives: a lock on a file of its own, in a folder beside the database.

The system lets go of the lock when the process has ended, however it ended. Whoever finds a file whose lock is free has
found a worker that did not sign off. A file gets its name only once it is locked. It is removed when its worker signs
off, or when others have reclaimed the worker's leases.

Where the folder cannot be made or read there is no proof, and silence is the rule.
"""

import asyncio
import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from holdfast.core.errors import HoldfastError
from holdfast.core.presence import Absences
from holdfast.stores import descriptors

FOLDER: Final = "-workers"
"""Behind the name of the database file, where the log and the shared memory stand, too."""
SUFFIX: Final = ".lock"
FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
MAX_TRIES: Final = 10


class Presence:
    def __init__(
        self,
        database: Path,
        worker_id: UUID,
        *,
        worker_timeout_seconds: float,
        on_gone: Callable[[Sequence[UUID]], Awaitable[None]] | None,
    ) -> None:
        self._folder = Path(f"{os.path.realpath(database)}{FOLDER}")
        self._worker_id = worker_id
        self._timeout_seconds = worker_timeout_seconds
        self._on_gone = on_gone
        self._descriptor = -1

    async def run(self) -> None:
        """Until cancelled; it returns at once where there can be no proof."""
        try:
            self._descriptor = self._hold()
        except OSError:
            return
        try:
            await self._watch()
        finally:
            self._sign_off()

    def _hold(self) -> int:
        unnamed = self._folder / str(self._worker_id)
        descriptor = self._make(unnamed)
        descriptors.keep_from_children(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(self._file(self._worker_id))
        except OSError:
            self._close(descriptor)
            raise
        return descriptor

    def _make(self, file: Path) -> int:
        for _ in range(MAX_TRIES - 1):
            self._folder.mkdir(exist_ok=True)
            # Whoever signs off at this moment may take the empty folder away.
            with contextlib.suppress(FileNotFoundError):
                return os.open(file, FLAGS, 0o644)
        self._folder.mkdir(exist_ok=True)
        return os.open(file, FLAGS, 0o644)

    def _sign_off(self) -> None:
        # In this order: a name whose lock is free stands for a process that has died.
        self._remove(self._worker_id)
        self._close(self._descriptor)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _close(self, descriptor: int) -> None:
        descriptors.forget(descriptor)
        os.close(descriptor)

    def _hold_again(self) -> None:
        """Where somebody has taken the file away, or put a copy in its place, which nobody has locked."""
        ours = os.fstat(self._descriptor)
        with contextlib.suppress(OSError):
            found = self._file(self._worker_id).stat()
            if (found.st_ino, found.st_dev) == (ours.st_ino, ours.st_dev):
                return
        with contextlib.suppress(OSError):
            before, self._descriptor = self._descriptor, self._hold()
            self._close(before)

    async def _watch(self) -> None:
        absences = Absences(worker_timeout_seconds=self._timeout_seconds, counts_from=0.0)
        while True:
            self._hold_again()
            if self._on_gone is not None:
                await self._deal_with(absences.saw(list(self._absent()), monotonic=time.monotonic()), self._on_gone)
            await asyncio.sleep(absences.seconds_until_look(is_alone=False))

    async def _deal_with(self, gone: Sequence[UUID], on_gone: Callable[[Sequence[UUID]], Awaitable[None]]) -> None:
        if not gone:
            return
        try:
            await on_gone(gone)
        except HoldfastError:
            # They are still gone at the next look.
            return
        for worker in gone:
            self._remove(worker)

    def _absent(self) -> Iterator[UUID]:
        try:
            files = list(self._folder.iterdir())
        except OSError:
            return
        for file in files:
            worker = _worker_of(file.name)
            if worker is not None and worker != self._worker_id and _is_free(file):
                yield worker

    def _file(self, worker: UUID) -> Path:
        return self._folder / f"{worker}{SUFFIX}"

    def _remove(self, worker: UUID) -> None:
        with contextlib.suppress(OSError):
            self._file(worker).unlink()


def _worker_of(name: str) -> UUID | None:
    try:
        return UUID(name.removesuffix(SUFFIX)) if name.endswith(SUFFIX) else None
    except ValueError:
        return None


def _is_free(file: Path) -> bool:
    try:
        # Whatever stands there under such a name: opening it must not wait for anybody.
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        # It has signed off meanwhile, or is somebody's whose files we may not read.
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        # Shared, so that two who look at the same time do not take each other for the worker.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
