"""Keys: which job has one."""

from collections.abc import Sequence
from uuid import UUID

from holdfast.core.idempotency import KeyClaim, KeyHolder
from holdfast.stores.sqlite.lock import Locking
from holdfast.stores.sqlite.rows import from_microseconds, to_microseconds


class KeyHolding(Locking):
    async def lock_keys(self, claims: Sequence[KeyClaim]) -> list[KeyHolder | None]:
        return [self._key_holder(claim) for claim in claims]

    def _key_holder(self, claim: KeyClaim) -> KeyHolder | None:
        for job_id, digest, expires_at in self.rows("idempotency.find", claim.job_type, claim.key):
            return KeyHolder(job_id=UUID(bytes=job_id), digest=digest, expires_at=from_microseconds(expires_at))
        return None

    async def put_keys(self, claims: Sequence[KeyClaim]) -> None:
        self.run_many(
            "idempotency.put",
            [(c.job_type, c.key, c.job_id.bytes, c.digest, to_microseconds(c.expires_at)) for c in claims],
        )

    async def drop_keys(self, claims: Sequence[KeyClaim]) -> None:
        """Nothing was written by lock_keys."""
