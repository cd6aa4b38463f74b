"""API keys: make, check, list, revoke. A front door takes the secret out of its request and asks here.

What a crash leaves: before the commit nothing; after it, and before the answer was shown, a key whose secret nobody
has. It opens nothing, stands in the list, and can be revoked.

APIKEY-1. A secret leaves this module once, as the answer of ``create``.
APIKEY-2. A check asks the store every time: a key that was revoked lets nobody in from the next request on.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid4

from holdfast.core.access import (
    RANDOM_BYTES,
    ApiKey,
    NewKey,
    Scope,
    digest_of,
    make_secret,
    read_secret,
    require_access,
)
from holdfast.core.checks import require_valid_key, require_valid_key_id
from holdfast.core.errors import Unavailable
from holdfast.core.ports import ApiKeys

TRIES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedKey:
    key: ApiKey
    secret: str = field(repr=False)
    """Shown to whoever asked for the key, and kept nowhere."""


class Access:
    def __init__(self, keys: ApiKeys) -> None:
        self._keys = keys

    async def create(
        self, name: str, *, scopes: Collection[Scope], expires_in_seconds: float | None = None
    ) -> CreatedKey:
        """A new key. Names are for people: two keys may share one, as while one takes the other's place."""
        random_bytes = secrets.token_bytes(RANDOM_BYTES)
        new = NewKey(
            id=uuid4(),
            name=name,
            scopes=frozenset(scopes),
            digest=digest_of(random_bytes),
            expires_in_seconds=expires_in_seconds,
        )
        return CreatedKey(key=await self.add(new), secret=make_secret(new.id, random_bytes))

    async def add(self, new: NewKey) -> ApiKey:
        """Once more where the answer was lost: nobody would hold the secret of the key that may be there by now."""
        require_valid_key(new)
        for tries_left in reversed(range(TRIES)):
            try:
                return await self._keys.add_key(new)
            except Unavailable:
                if not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def check(self, secret: str, scope: Scope) -> ApiKey:
        """The key that was shown, if it is good for that. Raises AccessDenied: KeyRefused or ScopeMissing."""
        presented = read_secret(secret)
        return require_access(presented, await self._keys.find_key(presented.key_id), scope=scope)

    async def list(self) -> list[ApiKey]:
        return await self._keys.read_keys()

    async def revoke(self, key_id: UUID) -> ApiKey:
        """For good; repeats are harmless. Raises KeyNotFound."""
        require_valid_key_id(key_id)
        return await self._keys.revoke_key(key_id)
