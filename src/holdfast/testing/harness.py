"""What the suites need beside a store: to move its clock, to open it a second time, to hear of its jobs."""

from typing import Protocol
from uuid import UUID

from holdfast.core.ports import Delivery, Store
from holdfast.testing.clock import ManualClock


class StoreHarness(Protocol):
    """One empty store for one test. To run the suite on a store of your own, write one of these."""

    store: Store
    """Open, migrated, empty."""
    clock: ManualClock
    """The clock that the store reads."""
    is_durable: bool
    """Whether ``reopened`` finds what was written before."""

    async def second_store(self) -> Store:
        """Another open store with connections of its own, on the same data and the same clock."""
        ...

    async def reopened(self) -> Store:
        """Close ``store`` and put a newly opened one in its place."""
        ...

    async def forget_worker(self, worker_id: UUID) -> None:
        """Remove a worker's row behind the store's back, and leave its leases as they are.

        A claim that runs beside ``leave`` may leave the same behind, but not every time.
        """
        ...

    async def set_max_attempts(self, job_id: UUID, max_attempts: int) -> None:
        """Change a job's limit behind the store's back.

        No verb does: it is the only way to meet a RETRYING job that has no attempt left.
        """
        ...


class DeliveryHarness(Protocol):
    """One empty store for one test, and deliveries that tell of its jobs. For a delivery of your own."""

    store: Store
    """Open, migrated, empty."""
    clock: ManualClock
    """The clock that the store reads."""

    def new_delivery(self) -> Delivery:
        """One that is not open yet, as every worker gets one."""
        ...
