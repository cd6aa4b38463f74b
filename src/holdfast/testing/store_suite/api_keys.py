"""API keys: kept once, revoked for good, found by ID. What is decided about them: ACCESS-1 to ACCESS-4."""

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from holdfast.core import limits
from holdfast.core.access import ApiKey, NewKey, Scope, StoredKey
from holdfast.core.errors import InvalidInput, KeyConflict, KeyNotFound
from holdfast.core.ports import Store
from holdfast.engine.access import Access
from holdfast.testing.faults import FaultKind
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot
from holdfast.testing.store_suite.faults import each_kind, failing, repeated

DIGEST: Final = bytes(range(32))


def new_key(**overrides: Any) -> NewKey:
    given = {"id": uuid4(), "name": "ci", "scopes": frozenset({Scope.SUBMIT, Scope.READ}), "digest": DIGEST}
    return NewKey(**{**given, **overrides})


async def find(store: Store, key_id: UUID) -> StoredKey:
    found = await store.find_key(key_id)
    assert found is not None
    return found


async def test_a_key_that_was_added_is_found_and_listed(harness: StoreHarness) -> None:
    """ApiKeys; PORT-3."""
    new = new_key(name="CI of the shop, Köln", expires_in_seconds=1.5)
    now = harness.clock.now()
    expected = ApiKey(
        id=new.id, name=new.name, scopes=new.scopes, created_at=now, expires_at=now + timedelta(seconds=1.5)
    )
    assert await harness.store.add_key(new) == expected
    assert await harness.store.read_keys() == [expected]
    harness.clock.advance(60)
    found = await find(harness.store, new.id)
    assert found == StoredKey(key=expected, digest=DIGEST, now=harness.clock.now())


async def test_a_key_without_an_end_never_expires(harness: StoreHarness) -> None:
    """NewKey.expires_in_seconds."""
    assert (await harness.store.add_key(new_key())).expires_at is None


@pytest.mark.parametrize("scopes", [{scope} for scope in Scope] + [set(Scope)], ids=lambda one: "+".join(sorted(one)))
async def test_a_key_keeps_its_scopes(harness: StoreHarness, scopes: set[Scope]) -> None:
    """ApiKeys."""
    key = await harness.store.add_key(new_key(scopes=frozenset(scopes)))
    assert key.scopes == (await find(harness.store, key.id)).key.scopes == frozenset(scopes)


async def test_a_key_that_nobody_added_is_not_there(harness: StoreHarness) -> None:
    """ApiKeys."""
    await harness.store.add_key(new_key())
    unknown = uuid4()
    assert await harness.store.find_key(unknown) is None
    with pytest.raises(KeyNotFound) as refused:
        await harness.store.revoke_key(unknown)
    assert refused.value.key_id == unknown


async def test_keys_are_listed_oldest_first_revoked_ones_too(harness: StoreHarness) -> None:
    """ApiKeys.read_keys."""
    assert await harness.store.read_keys() == []
    added = []
    for number in range(5):
        # Two share a moment: then the ID decides.
        harness.clock.advance(number % 2)
        added.append(await harness.store.add_key(new_key(name=f"key {number}")))
    added[1] = await harness.store.revoke_key(added[1].id)
    assert await harness.store.read_keys() == sorted(added, key=lambda key: (key.created_at, key.id))


async def test_two_keys_may_share_a_name(harness: StoreHarness) -> None:
    """ApiKeys: while one takes the other's place."""
    keys = [await harness.store.add_key(new_key(name="ci")) for _ in range(2)]
    assert {key.id for key in await harness.store.read_keys()} == {key.id for key in keys}


async def test_a_key_is_revoked_once_and_for_good(harness: StoreHarness) -> None:
    """ACCESS-4; PORT-4: the first time stays."""
    added = await harness.store.add_key(new_key(expires_in_seconds=3600.0))
    other = await harness.store.add_key(new_key())
    harness.clock.advance(5)
    revoked_at = harness.clock.now()
    revoked = await harness.store.revoke_key(added.id)
    assert revoked == replace(added, revoked_at=revoked_at)
    harness.clock.advance(5)
    assert await harness.store.revoke_key(added.id) == revoked
    assert (await find(harness.store, added.id)).key == revoked
    assert (await find(harness.store, other.id)).key == other


async def test_a_key_that_is_added_again_stays_as_it_is(harness: StoreHarness) -> None:
    """PORT-4; ACCESS-4: not even a revoked one comes back."""
    new = new_key(expires_in_seconds=60.0)
    added = await harness.store.add_key(new)
    harness.clock.advance(5)
    assert await harness.store.add_key(new) == added
    revoked = await harness.store.revoke_key(new.id)
    harness.clock.advance(5)
    assert await harness.store.add_key(new) == revoked
    assert await harness.store.read_keys() == [revoked]


@pytest.mark.parametrize(
    "change",
    [{"digest": bytes(32)}, {"name": "another"}, {"scopes": frozenset({Scope.ADMIN})}],
    ids=["digest", "name", "scopes"],
)
async def test_a_key_cannot_take_the_id_of_another(harness: StoreHarness, change: dict[str, Any]) -> None:
    """ApiKeys.add_key: or its secret would open nothing, or more than it should."""
    new = new_key()
    await harness.store.add_key(new)
    before = await snapshot(harness.store)
    with pytest.raises(KeyConflict):
        await harness.store.add_key(replace(new, **change))
    assert await snapshot(harness.store) == before
    assert (await find(harness.store, new.id)).digest == new.digest


async def test_keys_outlive_the_store(harness: StoreHarness) -> None:
    """PORT-1."""
    added = await harness.store.add_key(new_key(expires_in_seconds=60.0))
    revoked = await harness.store.revoke_key((await harness.store.add_key(new_key())).id)
    if harness.is_durable:
        store = await harness.reopened()
        assert {key.id: key for key in await store.read_keys()} == {added.id: added, revoked.id: revoked}


async def test_another_store_knows_at_once_that_a_key_was_revoked(harness: StoreHarness) -> None:
    """PORT-1: nothing of a key is kept in between."""
    other = await harness.second_store()
    key = await harness.store.add_key(new_key())
    assert (await find(other, key.id)).key == key
    revoked = await harness.store.revoke_key(key.id)
    assert (await find(other, key.id)).key == revoked


async def test_many_who_add_and_revoke_one_key_at_once_agree(harness: StoreHarness) -> None:
    """PORT-4, in two stores."""
    stores = (harness.store, await harness.second_store())
    new = new_key()
    added = await asyncio.gather(*(store.add_key(new) for store in stores for _ in range(5)))
    assert len(set(added)) == 1
    revoked = await asyncio.gather(*(store.revoke_key(new.id) for store in stores for _ in range(5)))
    assert len(set(revoked)) == 1
    assert await harness.store.read_keys() == [revoked[0]]


@each_kind
async def test_a_repeated_add_key_adds_one(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4."""
    new = new_key()
    store = failing(harness, "add_key", kind)
    added = await repeated(store, lambda: store.add_key(new))
    assert await harness.store.read_keys() == [added]


@each_kind
async def test_a_repeated_revoke_key_revokes_once(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4."""
    key = await harness.store.add_key(new_key())
    store = failing(harness, "revoke_key", kind)
    revoked = await repeated(store, lambda: store.revoke_key(key.id))
    assert revoked == replace(key, revoked_at=harness.clock.now())
    assert await harness.store.read_keys() == [revoked]


@dataclass(frozen=True, slots=True)
class BadKey:
    """One wrong thing about a key that is otherwise right."""

    name: str
    given: dict[str, Any]
    field: str
    said: str


BAD_KEYS: Final = [
    BadKey("ID of the wrong type", {"id": "abc"}, "id", "not a UUID"),
    BadKey("name empty", {"name": ""}, "name", "1 … 255"),
    BadKey("name too long", {"name": "x" * 256}, "name", "1 … 255"),
    BadKey("name of the wrong type", {"name": 5}, "name", "not text"),
    BadKey("NUL in the name", {"name": "a\0"}, "name", "NUL"),
    BadKey("surrogate in the name", {"name": "a\ud800"}, "name", "not UTF-8"),
    BadKey("line break in the name", {"name": "a\nb"}, "name", "line break"),
    BadKey("no scopes", {"scopes": frozenset()}, "scopes", "read, submit, manage, admin"),
    BadKey("scope that is none", {"scopes": frozenset({"root"})}, "scopes", "read, submit, manage, admin"),
    BadKey("scope as text", {"scopes": frozenset({"read"})}, "scopes", "not a Scope"),
    BadKey("scopes of the wrong type", {"scopes": [Scope.READ]}, "scopes", "frozenset"),
    BadKey("digest too short", {"digest": b"abc"}, "digest", "32 bytes"),
    BadKey("digest of the wrong type", {"digest": "a" * 32}, "digest", "32 bytes"),
    BadKey("expired from the start", {"expires_in_seconds": 0.0}, "expires_in_seconds", "0.001"),
    BadKey("no time at all", {"expires_in_seconds": float("nan")}, "expires_in_seconds", "0.001"),
    BadKey("time of the wrong type", {"expires_in_seconds": "90d"}, "expires_in_seconds", "0.001"),
    BadKey(
        "time too long",
        {"expires_in_seconds": limits.MAX_API_KEY_SECONDS + 1},
        "expires_in_seconds",
        str(limits.MAX_API_KEY_SECONDS),
    ),
]


@pytest.mark.parametrize("bad", BAD_KEYS, ids=lambda bad: bad.name)
async def test_a_bad_key_is_refused(harness: StoreHarness, bad: BadKey) -> None:
    """PORT-5."""
    with pytest.raises(InvalidInput) as refused:
        await Access(harness.store).add(new_key(**bad.given))
    (fault,) = refused.value.faults
    assert fault.field == bad.field
    assert str(refused.value).startswith(f"key: {bad.field}: ")
    assert bad.said in str(refused.value)
    assert await harness.store.read_keys() == []


async def test_all_that_is_wrong_with_a_key_is_said_at_once(harness: StoreHarness) -> None:
    """PORT-5."""
    with pytest.raises(InvalidInput) as refused:
        await Access(harness.store).add(new_key(name="", scopes=frozenset(), digest=b"", expires_in_seconds=-1.0))
    assert [fault.field for fault in refused.value.faults] == ["name", "scopes", "digest", "expires_in_seconds"]


async def test_a_key_is_asked_for_by_an_id(harness: StoreHarness) -> None:
    """PORT-5."""
    wrong: Any = "5f0c5b1e-8d5e-4b52-9f0e-6f1f3a1f7a55"
    with pytest.raises(InvalidInput, match="not a UUID"):
        await Access(harness.store).revoke(wrong)


async def test_the_longest_key_is_kept(harness: StoreHarness) -> None:
    """NewKey, at its limits."""
    name, longest = "ü" * limits.MAX_API_KEY_NAME_CHARACTERS, limits.MAX_API_KEY_SECONDS
    key = await harness.store.add_key(new_key(name=name, expires_in_seconds=longest))
    assert (key.name, key.expires_at) == (name, harness.clock.now() + timedelta(seconds=longest))
    assert (await find(harness.store, key.id)).key == key
