"""Where results are kept: ``results/NAME``, whole or not at all.

A run writes beside it, in ``NAME.partial``, and takes its place at the end. One that is broken off leaves the earlier
results as they were, and what it has measured in the partial folder.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Final

from holdfast.core.errors import Conflict, UsageError
from holdfast.designs.evaluation.facts import MADE_BY

ANALYSIS: Final = "analysis.md"
"""What a person makes of the figures; the report shows it. Never overwritten unasked."""


class Folder:
    def __init__(self, root: Path, name: str, *, replace: bool = False) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}", name):
            raise UsageError(f"{name!r} is not a name for results: letters, digits, points and hyphens")
        self.final = root / name
        self.partial = root / f"{name}.partial"
        self._replace = replace
        self._require_replaceable()

    def _require_replaceable(self) -> None:
        if not self.final.exists():
            return
        if not _is_ours(self.final):
            raise Conflict(f"{self.final} holds something else than results of `holdfast eval`; give another --name")
        if (self.final / ANALYSIS).exists() and not self._replace:
            raise Conflict(f"{self.final} has an {ANALYSIS}; give another --name, or --replace to lose it")

    def begin(self) -> Path:
        shutil.rmtree(self.partial, ignore_errors=True)
        self.partial.mkdir(parents=True)
        return self.partial

    def finish(self) -> Path:
        """The old ones are moved away first: between the two renames there is none, and the new ones are whole."""
        if self.final.exists():
            old = self.final.with_name(f"{self.final.name}.old")
            shutil.rmtree(old, ignore_errors=True)
            self.final.rename(old)
            self.partial.rename(self.final)
            shutil.rmtree(old)
        else:
            self.partial.rename(self.final)
        return self.final


def _is_ours(folder: Path) -> bool:
    try:
        made_by = json.loads((folder / "config.json").read_text(encoding="utf-8"))["made_by"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(made_by == MADE_BY)
