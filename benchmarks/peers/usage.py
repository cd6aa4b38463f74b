"""What processes use: CPU seconds and memory of a tree, as Linux counts them."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> list[int]:
    """A process and everything below it."""
    found = [root]
    for process in found:  # grows while it is walked
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{process}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def cpu_seconds(roots: Iterable[int]) -> float:
    """Of whole trees, children that have ended and were waited for included."""
    return sum(_ticks(process) for root in roots for process in tree(root)) / TICKS_A_SECOND


def _ticks(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    # The name, in parentheses, may hold spaces: count from behind it.
    return sum(int(value) for value in text.rpartition(")")[2].split()[11:15])


def memory_mib(roots: Iterable[int]) -> float:
    """Proportional set size: what is shared counts once over all that share it."""
    return sum(_pss_kib(process) for root in roots for process in tree(root)) / 1024


def _pss_kib(process: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
