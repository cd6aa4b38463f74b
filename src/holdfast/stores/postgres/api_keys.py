"""API keys: their rows and the four statements, each committed by itself."""

from uuid import UUID

from holdfast.core.access import ApiKey, NewKey, Scope, StoredKey, require_same
from holdfast.core.errors import KeyNotFound
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.rows import Row


async def add_key(database: Database, new: NewKey) -> ApiKey:
    given = (new.id, new.name, sorted(new.scopes), new.digest, new.expires_in_seconds)
    (row,) = await database.fetch(database.sql["api_keys.add"], database.now, *given)
    # Ours, or that of an earlier try.
    key = _key_from(row)
    require_same(new, key, row["digest"])
    return key


async def revoke_key(database: Database, key_id: UUID) -> ApiKey:
    for row in await database.fetch(database.sql["api_keys.revoke"], database.now, key_id):
        return _key_from(row)
    raise KeyNotFound(key_id)


async def find_key(database: Database, key_id: UUID) -> StoredKey | None:
    for row in await database.fetch(database.sql["api_keys.find"], database.now, key_id):
        return StoredKey(key=_key_from(row), digest=row["digest"], now=row["now"])
    return None


async def read_keys(database: Database) -> list[ApiKey]:
    return [_key_from(row) for row in await database.fetch(database.sql["api_keys.read"])]


def _key_from(row: Row) -> ApiKey:
    return ApiKey(
        id=row["id"],
        name=row["name"],
        scopes=frozenset(Scope(scope) for scope in row["scopes"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
    )
