"""Every delivery does what the port promises, on every store."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from holdfast.core.ports import Delivery, Store
from holdfast.testing import DeliveryHarness, ManualClock, StoreHarness
from holdfast.testing.delivery_suite import *  # noqa: F403
from holdfast.wiring import create_delivery

DELIVERIES: Final[dict[str, Callable[[Store], Delivery]]] = {"poll": create_delivery}


@dataclass
class Harness:
    store: Store
    clock: ManualClock
    create: Callable[[Store], Delivery]

    def new_delivery(self) -> Delivery:
        return self.create(self.store)


@pytest.fixture(params=DELIVERIES)
def delivery_harness(request: pytest.FixtureRequest, harness: StoreHarness) -> DeliveryHarness:
    return Harness(harness.store, harness.clock, DELIVERIES[request.param])
