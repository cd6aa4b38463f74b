"""When the slot of a periodic job may fire. What a slot is, the calendar says (``engine/cron.py``).

CRON-1. A slot of a name fires once, however many ask and however often.
CRON-2. A slot fires only if it is newer than every slot of its name that has come: of missed slots only the newest
    counts.
CRON-3. A slot in the future is refused. One that is there all the same (the clock was wrong, and has been put right)
    stands in nobody's way but its own.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from holdfast.core.commands import AlreadyFired, CronSlot, Fire, FireAnswer, Fired
from holdfast.core.errors import Fault, InvalidInput


def answer_without_firing(fire: Fire, slots: Sequence[CronSlot], *, index: int, now: datetime) -> FireAnswer | None:
    """The answer where nothing is to be done; None where the slot is to be fired. ``slots`` are those of its name."""
    slot = in_utc(fire.slot)
    if slot > now:
        problem = f"lies in the future; it is {now.isoformat()} by the store's clock"
        return InvalidInput([Fault(item=index, field="slot", problem=problem)])
    same = next((one for one in slots if one.slot == slot), None)
    if same is not None and fire.job is not None and same.job_id == fire.job.id:
        return Fired(same.job_id, is_repeat=True)
    newest = max((one for one in slots if slot <= one.slot <= now), key=lambda one: one.slot, default=None)
    return None if newest is None else AlreadyFired(newest.slot, newest.job_id)


def in_utc(slot: datetime) -> datetime:
    """Before anything is compared: in the hour that a clock repeats, times of two zones are never equal."""
    return slot.astimezone(UTC)
