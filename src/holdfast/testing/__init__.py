"""What Holdfast is tested with, for your tests too: a manual clock, factories, faults, and the suites for ports.

The suites need pytest and pytest-asyncio in its auto mode. To prove a store of your own, give a test module a
``harness`` fixture that yields a ``StoreHarness``, and ``from holdfast.testing.store_suite import *``.
"""

from holdfast.testing.clock import ManualClock
from holdfast.testing.harness import StoreHarness

__all__ = ["ManualClock", "StoreHarness"]
