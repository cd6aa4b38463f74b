"""Periodic jobs: which slots an expression has, and firing those that have come.

How it works: a slot is a moment of the calendar. Every worker looks at the store's clock and at the newest slot of each
name that was fired, and fires the latest slot that has come if it is newer. The store lets one of them succeed
(``core/cron.py``: CRON-1 to CRON-3), in the transaction that accepts the job.

SCHEDULER-1. Each slot fires once, however many schedulers run. Of the slots that nobody was there for, the newest
    fires, once, as soon as somebody is.
SCHEDULER-2. A name that was never seen is anchored at its latest slot, without a job: its first job is that of the next
    slot. A changed expression needs nothing: its latest slot fires if it is newer than the last one fired.
SCHEDULER-3. What one entry does wrong is logged, once a slot, and keeps no other from firing.

Where clocks are put forward or back, slots are those of Debian's cron. An expression with a fixed minute and hour
(``30 2 * * *``) fires once on every day: in the hour that is skipped, as soon as it is over (03:00); in the hour that
comes twice, the first time. One with a star for either (``*/15 * * * *``), or with seconds, follows real time: nothing
in the hour that is skipped, and both times in the hour that comes twice.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Any, Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from holdfast.core import limits
from holdfast.core.commands import CronSlot, Fire, NewJob
from holdfast.core.errors import HoldfastError, UsageError
from holdfast.core.ports import Store
from holdfast.engine import work

LOG: Final = logging.getLogger("holdfast.cron")
MAX_STEPS: Final = 10_000
"""Slots looked at to find one: more than an hour has seconds, which is what a clock put back can hide."""
_MOMENT: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronEntry:
    """A job that runs by the calendar. UsageError where the expression or the time zone is none."""

    name: str
    expression: str
    """Five fields, minute hour day month weekday; or six, with seconds before them."""
    timezone: str = "UTC"
    make_job: Callable[[], NewJob]
    """Called for every slot that is to be fired."""

    def __post_init__(self) -> None:
        _require_name(self.name)
        _require_expression(self.name, self.expression)
        _zone(self.name, self.timezone)
        if self.next_after(datetime.now(UTC)) is None:
            raise UsageError(f"cron {self.name!r}: no day ever matches {self.expression!r}; change its day or month")

    def latest_at(self, now: datetime) -> datetime | None:
        """The latest slot that has come, ``now`` included."""
        found = next((slot for slot in self._slots(now + _MOMENT, is_backwards=True) if slot <= now), None)
        # Backwards from within an hour that comes twice, those of the first time are not seen.
        for slot in self._slots(found, is_backwards=False) if found is not None else ():
            if slot > now:
                break
            found = slot
        return found

    def next_after(self, now: datetime) -> datetime | None:
        # Forwards from within an hour that comes twice, those of the first time are seen again.
        return next((slot for slot in self._slots(now, is_backwards=False) if slot > now), None)

    def _slots(self, start: datetime, *, is_backwards: bool) -> Iterator[datetime]:
        local = start.astimezone(_zone(self.name, self.timezone))
        for slot in islice(CronSim(self.expression, local, reverse=is_backwards), MAX_STEPS):
            yield slot.astimezone(UTC)


def _require_name(name: Any) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= limits.MAX_CRON_NAME_CHARACTERS:
        raise UsageError(f"cron {name!r}: a name has 1 … {limits.MAX_CRON_NAME_CHARACTERS} characters")


def _require_expression(name: str, expression: Any) -> None:
    problem = None
    if not isinstance(expression, str):
        problem = f"it is {type(expression).__name__}, not text"
    else:
        try:
            CronSim(expression, datetime.now(UTC))
        except CronSimError as error:
            problem = str(error).lower()
    if problem is not None:
        raise UsageError(
            f"cron {name!r}: {expression!r} is not a cron expression ({problem}); write five fields, "
            "minute hour day month weekday, such as '*/5 * * * *' or '30 2 * * MON'"
        )


def _zone(name: str, timezone: str) -> tzinfo:
    if timezone == "UTC":
        return UTC
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError, TypeError, AttributeError) as error:
        raise UsageError(
            f"cron {name!r}: no time zone is called {timezone!r}; write 'UTC' or a name such as 'Europe/Berlin' "
            "(a machine without a list of them needs: pip install tzdata)"
        ) from error


class CronScheduler:
    def __init__(self, store: Store, entries: Sequence[CronEntry]) -> None:
        self._store = store
        self._entries = {entry.name: entry for entry in entries}
        if len(self._entries) < len(entries):
            names = [entry.name for entry in entries]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise UsageError(f"two crons are called {twice[0]!r}; give one of them another name=")
        self._complained: dict[str, datetime] = {}

    async def fire_due(self) -> float:
        """Fire what has come by the store's clock; how many seconds it is until there may be more to do.

        Raises Unavailable where the store does: call it again, it doubles nothing.
        """
        state = await self._store.read_cron()
        newest = {slot.name: slot for slot in state.slots}
        due = [fire for entry in self._entries.values() if (fire := self._due(entry, newest, state.now)) is not None]
        for start in range(0, len(due), limits.MAX_FIRES):
            await self._fire(due[start : start + limits.MAX_FIRES])
        return self._seconds_until_next(state.now)

    def _due(self, entry: CronEntry, newest: dict[str, CronSlot], now: datetime) -> Fire | None:
        latest = entry.latest_at(now)
        seen = newest.get(entry.name)
        if seen is None:
            return Fire(name=entry.name, slot=latest or now)
        if latest is None or latest <= seen.slot:
            return None
        try:
            return Fire(name=entry.name, slot=latest, job=entry.make_job())
        except Exception as error:
            self._complain(entry.name, latest, error)
            return None

    async def _fire(self, fires: Sequence[Fire]) -> None:
        for fire, answer in zip(fires, await work.fire(self._store, fires), strict=True):
            if isinstance(answer, HoldfastError):
                self._complain(fire.name, fire.slot, answer)

    def _complain(self, name: str, slot: datetime, error: Exception) -> None:
        """There is nobody to raise to: this runs for the whole program, beside other entries."""
        if self._complained.get(name) != slot:
            self._complained[name] = slot
            text = "cron %r: the job of %s could not be submitted: %s"
            LOG.error(text, name, slot.isoformat(), error, exc_info=error, extra={"event": "cron_refused"})

    def _seconds_until_next(self, now: datetime) -> float:
        slots = [slot for entry in self._entries.values() if (slot := entry.next_after(now)) is not None]
        seconds = min(((slot - now).total_seconds() for slot in slots), default=limits.MAX_CRON_WAIT_SECONDS)
        return min(max(seconds, limits.MIN_CRON_WAIT_SECONDS), limits.MAX_CRON_WAIT_SECONDS)
