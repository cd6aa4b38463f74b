"""API keys: their rows and the four statements."""

import json
from sqlite3 import Cursor
from uuid import UUID

from holdfast.core.access import ApiKey, NewKey, Scope, StoredKey, require_same
from holdfast.core.errors import KeyNotFound
from holdfast.stores.sqlite.rows import Row, duration_microseconds, from_microseconds, from_time
from holdfast.stores.sqlite.statements import execute
from holdfast.stores.sqlite.transaction import SQLiteTransaction


def add_key(tx: SQLiteTransaction, new: NewKey) -> ApiKey:
    expires_at = None
    if new.expires_in_seconds is not None:
        expires_at = tx.now_microseconds + duration_microseconds(new.expires_in_seconds)
    scopes = json.dumps(sorted(new.scopes))
    tx.run("api_keys.add", new.id.bytes, new.name, scopes, new.digest, tx.now_microseconds, expires_at)
    # Ours, or that of an earlier try.
    (row,) = tx.rows("api_keys.find", new.id.bytes)
    key = _key_from(row)
    require_same(new, key, _digest_in(row))
    return key


def revoke_key(tx: SQLiteTransaction, key_id: UUID) -> ApiKey:
    tx.run("api_keys.revoke", key_id.bytes, tx.now_microseconds)
    for row in tx.rows("api_keys.find", key_id.bytes):
        return _key_from(row)
    raise KeyNotFound(key_id)


def find_key(cursor: Cursor, key_id: UUID, *, now: int) -> StoredKey | None:
    row = execute(cursor, "api_keys.find", key_id.bytes).fetchone()
    if row is None:
        return None
    return StoredKey(key=_key_from(row), digest=_digest_in(row), now=from_microseconds(now))


def read_keys(cursor: Cursor) -> list[ApiKey]:
    return [_key_from(row) for row in execute(cursor, "api_keys.read")]


def _key_from(row: Row) -> ApiKey:
    key_id, name, scopes, created_at, expires_at, revoked_at, *_ = row
    return ApiKey(
        id=UUID(bytes=key_id),
        name=name,
        scopes=frozenset(Scope(scope) for scope in json.loads(scopes)),
        created_at=from_microseconds(created_at),
        expires_at=from_time(expires_at),
        revoked_at=from_time(revoked_at),
    )


def _digest_in(row: Row) -> bytes:
    """Of ``keys.find``."""
    digest: bytes = row[-1]
    return digest
