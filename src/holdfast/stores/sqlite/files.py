"""The database file and its two companions, as they were when the store opened them.

SQLite keeps its files open and never looks at their names again. Delete, move or replace one of them, and it goes on
writing into a file that nobody will find; of two processes that have different ``-shm`` files, each believes to be the
only writer. So the store looks itself, after every commit and every read.

FILES-1. Nothing is acknowledged, and no read answered, unless all three names still led to the opened files afterwards.
FILES-2. Once one of them did not, the store does nothing more. It has to be opened again.
"""

import os
from pathlib import Path
from typing import Final

from holdfast.core.errors import ConfigError

GONE: Final = "was deleted or moved"
REPLACED: Final = "was replaced by another file"
ADVICE: Final = "stop all processes that use this database before you move or restore it, then start them again"
LOOKS_AN_INDEX: Final = 16
"""The ``-shm`` file is looked at less often: it is seldom lost alone, and a look is 0.5 % of a small commit."""


class OpenFiles:
    """Made when connections have opened the files."""

    def __init__(self, path: Path) -> None:
        # SQLite follows links to the file itself, and puts the companions beside what it finds.
        real = os.path.realpath(path)
        self.log = f"{real}-wal"
        self.log_bytes = 0
        """As of the last look."""
        self._file = str(path)
        self._index = f"{real}-shm"
        self._file_identity = _identity(self._file)
        self._log_identity = _identity(self.log)
        self._index_identity = _identity(self._index)
        self._looks = 0
        self._problem: str | None = None

    @property
    def is_given_up(self) -> bool:
        return self._problem is not None

    def are_in_place(self) -> bool:
        if self._problem is None:
            self._look()
        return self._problem is None

    def problem(self) -> ConfigError | None:
        """What ``are_in_place`` has found."""
        return None if self._problem is None else ConfigError(self._problem)

    def require_in_place(self) -> None:
        if not self.are_in_place():
            raise ConfigError(self._problem)

    def _look(self) -> None:
        # Not in a loop: this is part of every commit.
        stat = os.stat
        name = self._file
        try:
            found = stat(name)
            if (found.st_ino, found.st_dev) != self._file_identity:
                return self._give_up(name, REPLACED)
            name = self.log
            found = stat(name)
            if (found.st_ino, found.st_dev) != self._log_identity:
                return self._give_up(name, REPLACED)
            self.log_bytes = found.st_size
            self._looks += 1
            if self._looks % LOOKS_AN_INDEX == 0:
                name = self._index
                if _identity(name) != self._index_identity:
                    return self._give_up(name, REPLACED)
        except (FileNotFoundError, NotADirectoryError):
            self._give_up(name, GONE)
        except OSError:
            # We may not look there any more, which says nothing about the files.
            return None

    def _give_up(self, name: str, what: str) -> None:
        self._problem = f"{name} {what} while it was open; {ADVICE}"


def _identity(name: str) -> tuple[int, int]:
    found = os.stat(name)  # noqa: PTH116 - beside the other looks
    return found.st_ino, found.st_dev
