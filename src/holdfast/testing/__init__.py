"""What Holdfast is tested with, for your tests too.

For programs that submit jobs: ``testing.run(app)`` runs the app's jobs in memory, by a clock that the test moves; see
``docs/how-to/testing.md``.

For stores of your own: a manual clock, factories, faults, and the suites for ports. The suites need pytest and
pytest-asyncio in its auto mode. To prove a store, give a test module a ``harness`` fixture that yields a
``StoreHarness``, and ``from holdfast.testing.store_suite import *``. A delivery is proved alike, by a
``delivery_harness`` fixture that yields a ``DeliveryHarness`` and ``from holdfast.testing.delivery_suite import *``.
"""

from holdfast.testing.app import Jobs, Run, SyncJobs, run
from holdfast.testing.asserts import SubmittedJob
from holdfast.testing.clock import ManualClock
from holdfast.testing.failed_jobs import FailedJob, HandlerFailed
from holdfast.testing.harness import DeliveryHarness, StoreHarness
from holdfast.testing.stage import Drained

__all__ = [
    "DeliveryHarness",
    "Drained",
    "FailedJob",
    "HandlerFailed",
    "Jobs",
    "ManualClock",
    "Run",
    "StoreHarness",
    "SubmittedJob",
    "SyncJobs",
    "run",
]
