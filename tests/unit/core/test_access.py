"""How a secret reads, and whom it lets in."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.access import (
    RANDOM_BYTES,
    ApiKey,
    NewKey,
    Presented,
    Scope,
    StoredKey,
    digest_of,
    find_public_part,
    is_secret,
    make_secret,
    public_part,
    read_secret,
    require_access,
)
from holdfast.core.errors import AccessDenied, KeyRefused, Refusal, ScopeMissing

ID = UUID("5f0c5b1e-8d5e-4b52-9f0e-6f1f3a1f7a55")
RANDOM = bytes(range(RANDOM_BYTES))
SECRET = make_secret(ID, RANDOM)
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


def stored(
    *scopes: Scope, digest: bytes = digest_of(RANDOM), now: datetime = NOW, **overrides: datetime | None
) -> StoredKey:
    key = ApiKey(id=ID, name="ci", scopes=frozenset(scopes or Scope), created_at=NOW, **overrides)
    return StoredKey(key=key, digest=digest, now=now)


def reason_of(presented: Presented, found: StoredKey | None) -> Refusal:
    with pytest.raises(KeyRefused) as refused:
        require_access(presented, found, scope=Scope.READ)
    return refused.value.reason


def test_a_secret_reads_as_it_is_documented() -> None:
    """So that a scanner of source code, and a key of an older version, find it the same."""
    assert SECRET == "hf_XwxbHo1eS1KfDm8fOh96VQ_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    assert SECRET.startswith(f"{public_part(ID)}_")


@given(st.uuids(), st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES))
def test_what_is_made_is_read_again(key_id: UUID, random_bytes: bytes) -> None:
    secret = make_secret(key_id, random_bytes)
    assert is_secret(secret)
    assert read_secret(secret) == Presented(key_id=key_id, digest=digest_of(random_bytes))
    assert find_public_part(public_part(key_id)) == key_id
    assert find_public_part(secret) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hf_",
        "secret",
        public_part(ID),
        SECRET[:-1],
        SECRET + "A",
        SECRET.upper(),
        SECRET.replace("hf_", "hg_"),
        f" {SECRET}",
        f"{SECRET}\n",
        SECRET.replace("A", "Ä", 1),
        SECRET[:-1] + "9",  # the same bytes, were the bits that are left over not looked at
        SECRET[:24] + "R" + SECRET[25:],
        "\0" * len(SECRET),
    ],
)
def test_what_is_no_secret_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(KeyRefused) as refused:
        read_secret(text)
    assert refused.value.reason is Refusal.MALFORMED
    assert len(text) < 10 or text.strip() not in str(refused.value)


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("held", Scope)
def test_a_scope_is_its_own_and_admin_is_all(held: Scope, scope: Scope) -> None:
    found = stored(held)
    if held in (scope, Scope.ADMIN):
        assert require_access(read_secret(SECRET), found, scope=scope) == found.key
        return
    with pytest.raises(ScopeMissing) as refused:
        require_access(read_secret(SECRET), found, scope=scope)
    assert (refused.value.scope, refused.value.name) == (scope, "ci")
    assert f"'{scope.value}'" in str(refused.value)


@pytest.mark.parametrize("shown", [digest_of(b"another"), bytes(32), b""])
def test_an_unknown_key_and_a_wrong_secret_are_one_refusal(shown: bytes) -> None:
    """ACCESS-2: also where the key is there, but revoked, expired, or good for something else."""
    presented = Presented(key_id=ID, digest=shown)
    keys = [None, stored(), stored(revoked_at=NOW), stored(expires_at=NOW), stored(Scope.SUBMIT)]
    refusals = set()
    for found in keys:
        with pytest.raises(AccessDenied) as refused:
            require_access(presented, found, scope=Scope.READ)
        refusals.add((type(refused.value), str(refused.value)))
    assert len(refusals) == 1


def test_a_revoked_key_lets_nobody_in() -> None:
    """ACCESS-4."""
    assert reason_of(read_secret(SECRET), stored(revoked_at=NOW + timedelta(days=1))) is Refusal.REVOKED
    both = stored(revoked_at=NOW, expires_at=NOW)
    assert reason_of(read_secret(SECRET), both) is Refusal.REVOKED


def test_a_key_is_good_until_it_expires_and_no_moment_longer() -> None:
    """ACCESS-4, by the store's clock."""
    presented = read_secret(SECRET)
    before = stored(expires_at=NOW, now=NOW - MOMENT)
    assert require_access(presented, before, scope=Scope.READ) == before.key
    assert reason_of(presented, stored(expires_at=NOW)) is Refusal.EXPIRED


def test_no_digest_is_shown_by_accident() -> None:
    """ACCESS-1: what is printed or logged has neither the secret nor its digest."""
    digest = digest_of(RANDOM)
    new = NewKey(id=ID, name="ci", scopes=frozenset(Scope), digest=digest)
    for shown in (stored(), new, read_secret(SECRET)):
        assert repr(digest) not in repr(shown)
        assert "digest" not in repr(shown)


def test_every_refusal_says_what_to_do() -> None:
    said = {str(KeyRefused(reason)) for reason in Refusal}
    assert len(said) == len(Refusal)
    assert all(";" in text for text in said)
