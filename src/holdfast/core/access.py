"""API keys: what a front door asks for before it lets anybody in.

How it works: a secret reads ``hf_<id>_<32 random bytes>``, both parts in URL-safe base64. The ID finds the key, the
random part proves that the caller holds it. A store keeps the SHA-256 of the random part and nothing else of it. A fast
hash is enough, because there is nothing to guess: 256 random bits are not a password.

ACCESS-1. A secret is seen once, by whoever made the key. No store, log or list has it, or could work it out.
ACCESS-2. Who has not proved to hold a key learns nothing of it: an unknown ID and a wrong secret are the same refusal.
ACCESS-3. Digests are compared in constant time, even where there is no key to compare with.
ACCESS-4. A key that was revoked stays revoked, since the first time. One that has expired is as good as none, from that
    very moment of the store's clock.
"""

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from holdfast.core.errors import KeyConflict, KeyRefused, Refusal, ScopeMissing

PREFIX: Final = "hf_"
"""So that a scanner of source code knows one when it sees it."""
RANDOM_BYTES: Final = 32
DIGEST_BYTES: Final = 32
_PUBLIC: Final = re.compile(r"hf_([A-Za-z0-9_-]{22})")
# By length, not by the underscore: that is one of the characters of URL-safe base64.
_SECRET: Final = re.compile(r"(hf_[A-Za-z0-9_-]{22})_([A-Za-z0-9_-]{43})")
_NOBODYS_DIGEST: Final = bytes(DIGEST_BYTES)


class Scope(StrEnum):
    """What a key is good for. None of them includes another, but ``admin`` all."""

    READ = "read"
    """Look at jobs, queues and workers."""
    SUBMIT = "submit"
    """Give jobs."""
    MANAGE = "manage"
    """Cancel and replay jobs, pause and resume queues."""
    ADMIN = "admin"
    """Everything, and the keys themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as anybody may see it who may see keys; nothing here lets anybody in."""

    id: UUID
    name: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def refusal_at(self, now: datetime) -> Refusal | None:
        """Why it is good for nothing any more; None while it is good."""
        if self.revoked_at is not None:
            return Refusal.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return Refusal.EXPIRED
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key as it is given. Its ID is made before the first try, so a repeat cannot double it."""

    id: UUID
    name: str
    scopes: frozenset[Scope]
    digest: bytes = field(repr=False)
    expires_in_seconds: float | None = None
    """None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """What a store knows of a key, and its time: what is decided about the key is decided by that clock."""

    key: ApiKey
    digest: bytes = field(repr=False)
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """What somebody shows: which key it should be, and the digest of the proof."""

    key_id: UUID
    digest: bytes = field(repr=False)


def make_secret(key_id: UUID, random_bytes: bytes) -> str:
    assert len(random_bytes) == RANDOM_BYTES
    return f"{public_part(key_id)}_{_encode(random_bytes)}"


def public_part(key_id: UUID) -> str:
    """How the key's secret begins: to tell whose a leaked one is, without showing it."""
    return f"{PREFIX}{_encode(key_id.bytes)}"


def find_public_part(text: str) -> UUID | None:
    """The ID in ``hf_…`` without the secret behind it; None where it is none."""
    found = _PUBLIC.fullmatch(text)
    decoded = _decode(found[1]) if found else None
    return None if decoded is None else UUID(bytes=decoded)


def is_secret(text: str) -> bool:
    """Reads like one; whether it is somebody's is another question."""
    return _SECRET.fullmatch(text) is not None


def read_secret(text: str) -> Presented:
    """KeyRefused, which never repeats what was shown, where that is no key at all."""
    found = _SECRET.fullmatch(text)
    key_id = find_public_part(found[1]) if found else None
    random_bytes = _decode(found[2]) if found else None
    if key_id is None or random_bytes is None:
        raise KeyRefused(Refusal.MALFORMED)
    return Presented(key_id=key_id, digest=digest_of(random_bytes))


def digest_of(random_bytes: bytes) -> bytes:
    return hashlib.sha256(random_bytes).digest()


def require_access(presented: Presented, stored: StoredKey | None, *, scope: Scope) -> ApiKey:
    """The key, if it is good for that; KeyRefused or ScopeMissing (ACCESS-2, ACCESS-3)."""
    expected = _NOBODYS_DIGEST if stored is None else stored.digest
    is_proved = hmac.compare_digest(presented.digest, expected)
    if stored is None or not is_proved:
        raise KeyRefused(Refusal.UNKNOWN)
    refusal = stored.key.refusal_at(stored.now)
    if refusal is not None:
        raise KeyRefused(refusal)
    if not stored.key.allows(scope):
        raise ScopeMissing(scope=scope, name=stored.key.name)
    return stored.key


def require_same(new: NewKey, stored: ApiKey, digest: bytes) -> None:
    """A key is there already under that ID: it must be this very one, or the caller's secret would open nothing."""
    is_same = hmac.compare_digest(new.digest, digest)
    if not is_same or (new.name, new.scopes) != (stored.name, stored.scopes):
        raise KeyConflict(new.id)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes | None:
    """None where another text says the same: the bits that are left over are zero in ours."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return None
    return data if _encode(data) == text else None
