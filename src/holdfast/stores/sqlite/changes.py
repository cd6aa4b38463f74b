"""Linux says when a file is written to, so that nobody has to look.

The standard library has no inotify; these are the three calls of it that are needed. Elsewhere, or where the kernel
refuses (too many watches), ``FileChanges`` raises OSError, and the watch looks at the file's time stamp instead.
"""

import ctypes
import os
import select
import sys
from math import ceil
from typing import Final

IN_MODIFY: Final = 0x2
IN_FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC
BUFFER_BYTES: Final = 4096


class FileChanges:
    def __init__(self, path: str) -> None:
        if sys.platform != "linux":
            raise OSError("only Linux has inotify")
        library = ctypes.CDLL(None, use_errno=True)
        self._changes = library.inotify_init1(IN_FLAGS)
        if self._changes < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._bell = -1
        try:
            if library.inotify_add_watch(self._changes, os.fsencode(path), IN_MODIFY) < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch", path)
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            # Not select.select: it fails with descriptors from 1024 on.
            self._poll = select.poll()
            self._poll.register(self._changes, select.POLLIN)
            self._poll.register(self._bell, select.POLLIN)
        except OSError:
            self.close()
            raise

    def wait(self, timeout_seconds: float) -> bool:
        """Until the file is written to, which is True, or ``ring``; at most for so long."""
        ready = [descriptor for descriptor, _ in self._poll.poll(ceil(timeout_seconds * 1000))]
        for descriptor in ready:
            os.read(descriptor, BUFFER_BYTES)
        return self._changes in ready

    def ring(self) -> None:
        """From any thread."""
        if self._bell >= 0:
            os.eventfd_write(self._bell, 1)

    def close(self) -> None:
        for descriptor in (self._changes, self._bell):
            if descriptor >= 0:
                os.close(descriptor)
        self._changes = self._bell = -1
