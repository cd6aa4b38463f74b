"""Stacks as a sampler writes them, and what follows from them: towers, and shares of packages. Pure.

A line is a stack and how often it was seen: frames from the outermost in, separated by semicolons, a space, a number.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Stack = tuple[str, ...]
Stacks = Mapping[Stack, int]

LINE_NUMBER: Final = re.compile(r":\d+\)$")
NAME: Final = re.compile(r"^(.*?) \(")
NOISE: Final = re.compile(r"^0x[0-9a-f]+ \(|\.h\)$")
"""Frames that no name is known of, and macros of C that the compiler has put into their callers."""
MACHINERY: Final = re.compile(
    r"\((?:holdfast|holdfast/cli/.*|uvloop/.*|asyncio/.*|threading\.py|concurrent/.*|libpython.*|libc\.so.*|_asynciomodule\.c"
    r"|(?:loop|core|loop-watcher|linux|stream)\.c)\)$"
)
"""What every stack begins with: the loop, which calls what is of interest."""
WAITING: Final = frozenset(
    {
        *("epoll_wait", "epoll_pwait", "poll", "select", "clock_nanosleep", "PyThread_acquire_lock_timed"),
        *("pthread_cond_wait", "pthread_cond_timedwait", "sem_wait", "sem_clockwait", "sem_timedwait"),
    }
)
"""Functions of the system in which a thread stands that has nothing to do, or not the interpreter's lock."""
WAITING_DEPTH: Final = 4
SAME_SHARE: Final = 0.9
ROOT: Final = "all"


def read_stacks(text: str) -> Counter[Stack]:
    """Lines of one function are one frame: where in it the time went is seen from what it called."""
    stacks: Counter[Stack] = Counter()
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        if frames:
            stacks[tuple(LINE_NUMBER.sub(")", frame) for frame in frames.split(";"))] += int(count)
    return stacks


def at_work(stacks: Stacks) -> Counter[Stack]:
    """Without the threads that wait for something to do; those that wait for the disk stay."""
    found = {stack: count for stack, count in stacks.items() if not any(map(_is_waiting, stack[-WAITING_DEPTH:]))}
    return Counter(found)


def _is_waiting(frame: str) -> bool:
    name = NAME.match(frame)
    return name is not None and name[1] in WAITING


def tidied(stacks: Stacks) -> Counter[Stack]:
    found: Counter[Stack] = Counter()
    for stack, count in stacks.items():
        found[tidy(stack)] += count
    return found


def tidy(stack: Stack) -> Stack:
    """What is of interest of a stack: without noise, repeats and the machinery at its root. Never empty."""
    named = [frame for frame in stack if not NOISE.search(frame)] or list(stack[-1:])
    single = [frame for frame, before in zip(named, [None, *named], strict=False) if frame != before]
    first = next((depth for depth, frame in enumerate(single) if not MACHINERY.search(frame)), len(single) - 1)
    return tuple(single[first:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    frame: str
    total: float
    """Share of the samples in which it stood somewhere."""
    own: float
    """Share of the samples in which it was the innermost."""


def towers(stacks: Stacks) -> list[Tower]:
    """Widest first, callers before what they call. A frame that calls itself counts once a sample."""
    samples = sum(stacks.values())
    total: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for stack, count in stacks.items():
        own[stack[-1]] += count
        for frame in dict.fromkeys(stack):
            total[frame] += count
    return [Tower(frame=frame, total=count / samples, own=own[frame] / samples) for frame, count in total.most_common()]


def landmarks(stacks: Stacks, *, narrowest: float) -> list[Tower]:
    """The widest towers, but of a chain of calls that are all as wide as each other only the outermost.

    A frame that does much itself is named wherever it stands.
    """
    chosen: list[Tower] = []
    for tower in towers(stacks):
        if tower.total < narrowest:
            break
        if tower.own >= narrowest or not any(_is_same_chain(stacks, tower, other) for other in chosen):
            chosen.append(tower)
    return chosen


def _is_same_chain(stacks: Stacks, tower: Tower, other: Tower) -> bool:
    both = sum(count for stack, count in stacks.items() if tower.frame in stack and other.frame in stack)
    return both / sum(stacks.values()) >= SAME_SHARE * max(tower.total, other.total)


def parts(stacks: Stacks, names: Mapping[str, str]) -> dict[str, float]:
    """Share by part: that of the innermost frame in which one of the texts stands. Widest first."""
    samples = sum(stacks.values())
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        found[part_of(stack, names)] += count
    return {name: count / samples for name, count in found.most_common()}


def part_of(stack: Stack, names: Mapping[str, str]) -> str:
    for frame in reversed(stack):
        for text, name in names.items():
            if text in frame:
                return name
    return "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A frame in the graph: where it begins, how wide it is (shares), and how deep it lies."""

    frame: str
    start: float
    width: float
    depth: int


def boxes(stacks: Stacks, *, narrowest: float = 0.001) -> list[Box]:
    """As a graph is drawn: callers below, what they call above them, the same frames side by side merged."""
    found: list[Box] = []
    _place(found, Box(frame=ROOT, start=0.0, width=1.0, depth=0), stacks, sum(stacks.values()), narrowest)
    return found


def _place(found: list[Box], below: Box, stacks: Stacks, samples: int, narrowest: float) -> None:
    found.append(below)
    callees: dict[str, Counter[Stack]] = {}
    for stack, count in stacks.items():
        if stack:
            callees.setdefault(stack[0], Counter())[stack[1:]] += count
    start = below.start
    for frame, inner in sorted(callees.items()):
        width = sum(inner.values()) / samples
        if width >= narrowest:
            _place(found, Box(frame=frame, start=start, width=width, depth=below.depth + 1), inner, samples, narrowest)
        start += width
