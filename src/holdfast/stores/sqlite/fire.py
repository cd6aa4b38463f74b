"""fire: the slots of periodic jobs."""

from collections.abc import Sequence
from datetime import datetime

from holdfast.core.commands import CronSlot
from holdfast.stores.sqlite.lock import Locking
from holdfast.stores.sqlite.rows import slot_from, to_bytes, to_microseconds


class Firing(Locking):
    async def lock_slots(self) -> None:
        """The transaction has the only write lock there is."""

    async def find_slots(self, wanted: Sequence[tuple[str, datetime]]) -> list[CronSlot]:
        return [
            slot_from(row)
            for name, slot in wanted
            for row in self.rows("fire.find", name, to_microseconds(slot), self.now_microseconds)
        ]

    async def add_slots(self, slots: Sequence[CronSlot]) -> None:
        self.run_many(
            "fire.add",
            [(s.name, to_microseconds(s.slot), to_bytes(s.job_id), to_microseconds(s.fired_at)) for s in slots],
        )
