"""The conformance suite of the delivery port: what every delivery must do, and what it may do without harm.

``hearing`` asks the delivery itself; in ``hints``, workers hear through it, and of things that it never said. A test's
name is the claim; DELIVERY numbers are those of ``core.ports``.
"""

from importlib import import_module
from typing import Any, Final

import pytest

SUBJECTS: Final = ("hearing", "hints")

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
