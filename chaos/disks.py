"""A small disk that can be filled: a tmpfs of the run's own where that is allowed, else a limit that acts alike."""

import contextlib
import ctypes
import errno
import os
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Final

STEPS_BYTES: Final = (16 * 1024 * 1024, 1024 * 1024, 65536, 4096)
DETACH: Final = 2
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Disk:
    """A folder; ``fill`` leaves no space in it, ``free`` gives it back."""

    def __init__(self, folder: Path, *, size_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._ballast = folder / "ballast"
        options = f"size={size_bytes}".encode()
        self.is_mounted = os.geteuid() == 0 and _LIBC.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options) == 0

    def fill(self, writers: Iterable[int]) -> None:
        """``writers``: the processes that write here. Without a disk of our own, their files may not grow."""
        if not self.is_mounted:
            for pid in writers:
                _limit_files(pid, 0)
            return
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT)
        try:
            at = 0
            for step in STEPS_BYTES:
                at = _allocate(descriptor, at, step)
        finally:
            os.close(descriptor)

    def free(self, writers: Iterable[int]) -> None:
        if self.is_mounted:
            self._ballast.unlink(missing_ok=True)
            return
        for pid in writers:
            _limit_files(pid, None)

    def close(self) -> None:
        if self.is_mounted:
            _LIBC.umount2(os.fsencode(self.folder), DETACH)


def _allocate(descriptor: int, at: int, step: int) -> int:
    while True:
        try:
            os.posix_fallocate(descriptor, at, step)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return at
        at += step


def _limit_files(pid: int, size_bytes: int | None) -> None:
    with contextlib.suppress(ProcessLookupError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if size_bytes is None else size_bytes, hard))
