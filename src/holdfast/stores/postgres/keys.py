"""API keys: their rows and the four statements, each committed by itself."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from uuid import UUID

from holdfast.core.access import ApiKey, NewKey, Scope, StoredKey, require_same
from holdfast.core.errors import KeyNotFound
from holdfast.stores.postgres.rows import Row
from holdfast.stores.postgres.statements import Statements

Fetch = Callable[..., Awaitable[Sequence[Row]]]
"""Of a statement and its parameters."""


async def add_key(fetch: Fetch, sql: Statements, new: NewKey, *, now: datetime | None) -> ApiKey:
    scopes = sorted(new.scopes)
    (row,) = await fetch(sql["add_key"], now, new.id, new.name, scopes, new.digest, new.expires_in_seconds)
    # Ours, or that of an earlier try.
    key = _key_from(row)
    require_same(new, key, row["digest"])
    return key


async def revoke_key(fetch: Fetch, sql: Statements, key_id: UUID, *, now: datetime | None) -> ApiKey:
    for row in await fetch(sql["revoke_key"], now, key_id):
        return _key_from(row)
    raise KeyNotFound(key_id)


async def find_key(fetch: Fetch, sql: Statements, key_id: UUID, *, now: datetime | None) -> StoredKey | None:
    for row in await fetch(sql["find_key"], now, key_id):
        return StoredKey(key=_key_from(row), digest=row["digest"], now=row["now"])
    return None


async def read_keys(fetch: Fetch, sql: Statements) -> list[ApiKey]:
    return [_key_from(row) for row in await fetch(sql["read_keys"])]


def _key_from(row: Row) -> ApiKey:
    return ApiKey(
        id=row["id"],
        name=row["name"],
        scopes=frozenset(Scope(scope) for scope in row["scopes"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
    )
