"""The whole way of a key: made, shown once, checked, revoked."""

from uuid import uuid4

import pytest

from holdfast.core.access import Scope
from holdfast.core.errors import InvalidInput, KeyNotFound, KeyRefused, Refusal, ScopeMissing, Unavailable
from holdfast.engine.access import TRIES, Access
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.faults import FaultKind, FaultyStore, PlannedFault


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=clock)


async def refusal(access: Access, secret: str) -> Refusal:
    with pytest.raises(KeyRefused) as refused:
        await access.check(secret, Scope.READ)
    return refused.value.reason


async def test_a_key_lets_its_holder_in_for_what_it_is_good_for(store: MemoryStore) -> None:
    access = Access(store)
    created = await access.create("ci", scopes=[Scope.READ, Scope.SUBMIT])
    assert await access.check(created.secret, Scope.READ) == created.key
    assert await access.check(created.secret, Scope.SUBMIT) == created.key
    with pytest.raises(ScopeMissing):
        await access.check(created.secret, Scope.MANAGE)
    assert await access.list() == [created.key]


async def test_every_key_has_a_secret_of_its_own(store: MemoryStore) -> None:
    access = Access(store)
    one, other = [await access.create("ci", scopes=[Scope.READ]) for _ in range(2)]
    assert one.secret != other.secret
    assert one.secret[-43:] != other.secret[-43:]
    assert await refusal(access, one.secret[:26] + other.secret[26:]) is Refusal.UNKNOWN
    assert await refusal(access, "hf_" + "A" * 22 + one.secret[25:]) is Refusal.UNKNOWN


async def test_a_revoked_key_is_refused_from_the_next_check_on(store: MemoryStore) -> None:
    """APIKEY-2."""
    access, elsewhere = Access(store), Access(store)
    created = await access.create("ci", scopes=[Scope.READ])
    assert await elsewhere.check(created.secret, Scope.READ) == created.key
    revoked = await access.revoke(created.key.id)
    assert await refusal(elsewhere, created.secret) is Refusal.REVOKED
    assert await access.revoke(created.key.id) == revoked
    with pytest.raises(KeyNotFound):
        await access.revoke(uuid4())


async def test_a_key_expires_by_the_stores_clock(store: MemoryStore, clock: ManualClock) -> None:
    access = Access(store)
    created = await access.create("ci", scopes=[Scope.READ], expires_in_seconds=60.0)
    clock.advance(59.999)
    assert await access.check(created.secret, Scope.READ) == created.key
    clock.advance(0.001)
    assert await refusal(access, created.secret) is Refusal.EXPIRED


async def test_a_secret_is_not_shown_by_accident(store: MemoryStore) -> None:
    """APIKEY-1."""
    created = await Access(store).create("ci", scopes=[Scope.READ])
    assert created.secret not in repr(created)
    assert created.secret[-43:] not in repr(vars(store))


@pytest.mark.parametrize("kind", FaultKind)
async def test_an_answer_that_was_lost_costs_no_key(store: MemoryStore, kind: FaultKind) -> None:
    """PORT-4: the second try finds what the first may have left."""
    faulty = FaultyStore(store, [PlannedFault("add_key", kind)])
    created = await Access(faulty).create("ci", scopes=[Scope.READ])
    await faulty.under_way()
    assert await store.read_keys() == [created.key]
    assert await Access(store).check(created.secret, Scope.READ) == created.key


async def test_a_store_that_stays_away_is_said_to_be(store: MemoryStore) -> None:
    plan = [PlannedFault("add_key", FaultKind.BEFORE_WRITE, call) for call in range(1, TRIES + 1)]
    with pytest.raises(Unavailable):
        await Access(FaultyStore(store, plan)).create("ci", scopes=[Scope.READ])
    assert await store.read_keys() == []


async def test_what_is_no_key_never_reaches_the_store(store: MemoryStore) -> None:
    away = FaultyStore(store, [PlannedFault("find_key", FaultKind.BEFORE_WRITE)])
    assert await refusal(Access(away), "nonsense") is Refusal.MALFORMED


async def test_a_key_for_nothing_is_refused(store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match="scopes"):
        await Access(store).create("ci", scopes=[])
