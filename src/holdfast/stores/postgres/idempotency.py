"""Keys: which job has one, and who takes one first (LOCK-2)."""

from collections.abc import Mapping, Sequence

from holdfast.core.idempotency import KeyClaim, KeyHolder
from holdfast.stores.postgres.errors import LOCK_NOT_AVAILABLE, sqlstate_of
from holdfast.stores.postgres.lock import Locking
from holdfast.stores.postgres.locks import KEYS_BRIEFLY, TRIED_KEYS, Held
from holdfast.stores.postgres.rows import Row


class KeyHolding(Locking):
    async def lock_keys(self, claims: Sequence[KeyClaim]) -> list[KeyHolder | None]:
        # Two submits of one call may ask for the same key; the database is asked once.
        first = {(claim.job_type, claim.key): claim for claim in reversed(claims)}
        rows = await self._ask_for_keys(first)
        if len(rows) < len(first):
            raise Held(first.keys() - {(row["job_type"], row["key"]) for row in rows}, is_key=True)
        holders: dict[tuple[str, str], KeyHolder] = {}
        for row in rows:
            name = (row["job_type"], row["key"])
            if row["is_free"]:
                self._taken_keys.add(name)
            else:
                holders[name] = KeyHolder(job_id=row["job_id"], digest=row["digest"], expires_at=row["expires_at"])
        return [holders.get((claim.job_type, claim.key)) for claim in claims]

    async def put_keys(self, claims: Sequence[KeyClaim]) -> None:
        self._taken_keys -= {(claim.job_type, claim.key) for claim in claims}
        await self._run(
            "idempotency.put",
            [claim.job_type for claim in claims],
            [claim.key for claim in claims],
            [claim.job_id for claim in claims],
            [claim.digest for claim in claims],
            [claim.expires_at for claim in claims],
        )

    async def drop_keys(self, claims: Sequence[KeyClaim]) -> None:
        names = [n for n in {(claim.job_type, claim.key) for claim in claims} if n in self._taken_keys]
        if names:
            await self._run("idempotency.drop", [name[0] for name in names], [name[1] for name in names])

    async def _ask_for_keys(self, claims: Mapping[tuple[str, str], KeyClaim]) -> Sequence[Row]:
        arguments = (
            [name[0] for name in claims],
            [name[1] for name in claims],
            [claim.job_id for claim in claims.values()],
            [claim.digest for claim in claims.values()],
            [claim.expires_at for claim in claims.values()],
        )
        is_caller = self._waiting.is_callers
        mode = "none" if len(claims) > TRIED_KEYS else "wait" if is_caller else "try"
        try:
            return await self._run("idempotency.lock", *arguments, mode, None if is_caller else KEYS_BRIEFLY)
        except Exception as error:
            if sqlstate_of(error) == LOCK_NOT_AVAILABLE and not is_caller:
                raise Held(claims if len(claims) == 1 else (), is_key=True) from error
            raise
