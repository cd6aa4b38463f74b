"""fire: the slots of periodic jobs."""

from collections.abc import Sequence
from datetime import datetime

from holdfast.core.commands import CronSlot
from holdfast.stores.postgres.lock import Locking
from holdfast.stores.postgres.rows import slot_from


class Firing(Locking):
    async def lock_slots(self) -> None:
        await self._run("fire.lock")

    async def find_slots(self, wanted: Sequence[tuple[str, datetime]]) -> list[CronSlot]:
        rows = await self._run("fire.find", [name for name, _ in wanted], [slot for _, slot in wanted], self.now)
        return [slot_from(row) for row in rows]

    async def add_slots(self, slots: Sequence[CronSlot]) -> None:
        await self._run(
            "fire.add",
            [slot.name for slot in slots],
            [slot.slot for slot in slots],
            [slot.job_id for slot in slots],
            [slot.fired_at for slot in slots],
        )
