"""Which Python files have changed: the modification times under a folder, compared with those of the last look."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
MAX_FILES: Final = 20_000
"""Where there are more, the rest is not watched."""


class Changes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._times = self._read()

    def changed(self) -> list[Path]:
        """Files that were changed, added or removed since the last call."""
        before, self._times = self._times, self._read()
        both = before.keys() | self._times.keys()
        return sorted(path for path in both if before.get(path) != self._times.get(path))

    def _read(self) -> dict[Path, int]:
        times: dict[Path, int] = {}
        for path in self._files():
            try:
                times[path] = path.stat().st_mtime_ns
            except OSError:
                continue  # removed while we looked
            if len(times) >= MAX_FILES:
                break
        return times

    def _files(self) -> Iterator[Path]:
        for folder, folders, files in os.walk(self._folder):
            # Hidden folders, caches and virtual environments are nobody's source.
            folders[:] = [
                name
                for name in folders
                if name not in SKIPPED
                and not name.startswith(".")
                and not (Path(folder) / name / "pyvenv.cfg").exists()
            ]
            yield from (Path(folder) / name for name in files if name.endswith(".py"))
