"""API keys in a dictionary."""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from holdfast.core.access import ApiKey, NewKey, StoredKey, require_same
from holdfast.core.errors import KeyNotFound
from holdfast.stores.memory.transaction import Tables


def add_key(tables: Tables, new: NewKey, *, now: datetime) -> ApiKey:
    if new.id in tables.api_keys:
        key, digest = tables.api_keys[new.id]
        require_same(new, key, digest)
        return key
    key = ApiKey(
        id=new.id,
        name=new.name,
        scopes=new.scopes,
        created_at=now,
        expires_at=None if new.expires_in_seconds is None else now + timedelta(seconds=new.expires_in_seconds),
    )
    tables.api_keys[new.id] = key, new.digest
    return key


def revoke_key(tables: Tables, key_id: UUID, *, now: datetime) -> ApiKey:
    if key_id not in tables.api_keys:
        raise KeyNotFound(key_id)
    key, digest = tables.api_keys[key_id]
    key = replace(key, revoked_at=key.revoked_at or now)
    tables.api_keys[key_id] = key, digest
    return key


def find_key(tables: Tables, key_id: UUID, *, now: datetime) -> StoredKey | None:
    if key_id not in tables.api_keys:
        return None
    key, digest = tables.api_keys[key_id]
    return StoredKey(key=key, digest=digest, now=now)


def read_keys(tables: Tables) -> list[ApiKey]:
    return sorted((key for key, _ in tables.api_keys.values()), key=lambda key: (key.created_at, key.id))
