"""PORT-5: nothing reaches a store unchecked. What is refused, and how, is in the store suite's ``bad_input``."""

import ast
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import holdfast
from holdfast.core.commands import Filter, Submit
from holdfast.core.errors import InvalidInput
from holdfast.core.payload import Payload
from holdfast.engine.engine import Engine
from holdfast.stores.memory import MemoryStore
from holdfast.testing.factories import new_job, read_all

PACKAGE = Path(holdfast.__file__).parent
TOLD = frozenset(
    {"submit", "claim", "claim_ids", "settle", "report", "register", "tick", "fire"}
    | {"cancel", "replay", "replay_where", "pause", "resume"}
    | {"read", "read_page", "read_attempts", "read_upstream", "add_key", "find_key", "revoke_key"}
)
"""The verbs of a store that take what somebody said."""
CHECKERS = {
    "engine/engine.py",  # checks what front doors say
    "engine/work.py",  # checks what workers say
    "engine/access.py",  # checks keys
    "engine/submit.py",  # is given what the engine has checked
    "engine/results.py",  # reads jobs that it was asked for, by IDs
    "engine/why.py",  # the same
    "engine/doctor.py",  # ticks with settings of its own
    "worker/executor.py",  # reads what a claimed job waited for
    "worker/starvation.py",  # reads jobs that handlers wait for
}


def test_only_those_who_check_tell_a_store_anything() -> None:
    found = {path for path, _ in calls()}
    assert found <= CHECKERS, [call for call in calls() if call[0] not in CHECKERS]
    assert found == CHECKERS, f"{CHECKERS - found} tell a store nothing: leave them out"


def calls() -> Iterator[tuple[str, str]]:
    """Of a store's verbs, outside stores and tests."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(("stores/", "testing/", "designs/")):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TOLD:
                owner = ast.unparse(node.func.value)
                if owner.rpartition(".")[2].lstrip("_") in ("store", "keys"):
                    yield place, f"{owner}.{node.func.attr}"


async def test_an_engine_refuses_payloads_above_its_own_limit() -> None:
    store = MemoryStore()
    engine = Engine(store, payload_limit_bytes=20)
    with pytest.raises(InvalidInput, match="limit: 20 bytes"):
        await engine.submit(Submit(jobs=(new_job(payload=Payload.of("x" * 20)),)))
    await engine.submit(Submit(jobs=(new_job(payload=Payload.of("x" * 18)),)))
    assert len(await read_all(store)) == 1


async def test_jobs_are_asked_for_by_ids() -> None:
    engine = Engine(MemoryStore())
    wrong = str(uuid4())
    for ask in (engine.get, engine.read_attempts, engine.why):
        with pytest.raises(InvalidInput, match="not a UUID"):
            await ask(wrong)  # type: ignore[arg-type]
    for ask_many in (engine.read, engine.cancel, engine.replay):
        with pytest.raises(InvalidInput, match="not a UUID"):
            await ask_many([wrong])  # type: ignore[list-item]


async def test_a_page_out_of_bounds_is_refused() -> None:
    engine = Engine(MemoryStore())
    for ask in (engine.read_page, engine.replay_where):
        with pytest.raises(InvalidInput, match="limit"):
            await ask(Filter(), limit=0)
