"""The conformance suite of the store port: what every store must do, in one module per verb or subject.

A test's name is the claim; its docstring, where it has one, says why, or names the invariant that the test proves:
``core/README.md`` lists where each is stated.
"""

from importlib import import_module
from typing import Any, Final

import pytest

SUBJECTS: Final = (
    "api_keys",
    "bad_input",
    "cancel",
    "claim",
    "claim_ids",
    "claim_order",
    "cron",
    "dependencies",
    "durability",
    "extend",
    "faults",
    "fields",
    "idempotency",
    "liveness",
    "place",
    "queues",
    "races",
    "races_of_dependencies",
    "read",
    "replay",
    "report",
    "retention",
    "settle",
    "spawn",
    "submit",
    "tick",
    "transitions",
    "wake",
    "why",
    "workers",
)

# Before the modules are imported, so that a failing assert says what it saw.
pytest.register_assert_rewrite(*(f"{__name__}.{subject}" for subject in SUBJECTS))


def _collect() -> dict[str, Any]:
    tests: dict[str, Any] = {}
    for subject in SUBJECTS:
        for name, test in vars(import_module(f"{__name__}.{subject}")).items():
            if name.startswith("test_"):
                assert name not in tests, f"two tests are called {name}"
                tests[name] = test
    return tests


_TESTS: Final = _collect()
globals().update(_TESTS)
__all__ = list(_TESTS)
