"""What processes use, as Linux counts it: CPU seconds, and memory as proportional set size."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
IDLE_FIELDS: Final = (3, 4)
"""idle and iowait in /proc/stat's first line."""
GUEST_FIELDS: Final = 8
"""From here on what is counted already as user time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The CPU seconds of all cores since the machine was started."""

    busy_seconds: float
    all_seconds: float

    def busy_since(self, earlier: "Machine") -> float:
        """The share of the machine that was in use, 0 … 1."""
        passed = self.all_seconds - earlier.all_seconds
        # Differences of large numbers: a machine that is busy throughout would have a little more than all.
        return min(1.0, (self.busy_seconds - earlier.busy_seconds) / passed) if passed > 0 else 0.0


def machine() -> Machine:
    line = Path("/proc/stat").read_text().partition("\n")[0]
    ticks = [int(value) for value in line.split()[1:]][:GUEST_FIELDS]
    idle = sum(ticks[field] for field in IDLE_FIELDS)
    return Machine(busy_seconds=(sum(ticks) - idle) / TICKS_A_SECOND, all_seconds=sum(ticks) / TICKS_A_SECOND)


def tree(root: int) -> list[int]:
    """A process and everything below it."""
    found = [root]
    for process in found:  # grows while it is walked
        with suppress(OSError):
            for task in Path(f"/proc/{process}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def cpu_seconds(processes: Iterable[int]) -> float:
    """Of these processes, and of children of theirs that have ended."""
    return sum(_ticks(process) for process in processes) / TICKS_A_SECOND


def _ticks(process: int) -> int:
    with suppress(OSError):
        text = Path(f"/proc/{process}/stat").read_text()
        # The name, in parentheses, may hold spaces: count from behind it.
        return sum(int(value) for value in text.rpartition(")")[2].split()[11:15])
    return 0


def memory_mib(processes: Iterable[int]) -> float:
    """Proportional set size: what is shared counts once over all that share it."""
    return sum(_pss_kib(process) for process in processes) / 1024


def _pss_kib(process: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
