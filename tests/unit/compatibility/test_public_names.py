"""What version 0.1 had still works, or the changelog lists it as a break."""

import re
from pathlib import Path
from typing import Final

import pytest

from holdfast.core import commands
from tests.unit.compatibility.public import describe

RELEASED: Final = Path(__file__).with_name("names_0_1.txt").read_text(encoding="utf-8").splitlines()
CHANGELOG: Final = Path(__file__).parents[3] / "CHANGELOG.md"


def test_every_name_and_parameter_of_0_1_is_still_there_or_listed_as_a_break() -> None:
    now = {line.partition("(")[0]: line for line in describe()}
    listed = breaks(CHANGELOG.read_text(encoding="utf-8"))
    missing = [
        line
        for line in RELEASED
        if not is_compatible(line, now.get(line.partition("(")[0], "")) and line.partition("(")[0] not in listed
    ]
    assert missing == [], "keep them for one release with a DeprecationWarning, or list them in CHANGELOG.md as breaks"


def breaks(changelog: str) -> set[str]:
    """The names in backticks below a heading Breaks."""
    parts = re.findall(r"^### Breaks\n(.*?)(?=^##|\Z)", changelog, re.MULTILINE | re.DOTALL)
    return {name for part in parts for name in re.findall(r"`(holdfast[\w.]*)`", part)}


def is_compatible(before: str, after: str) -> bool:
    """Whoever called it as it was can call it as it is."""
    old, new = parameters(before), parameters(after)
    if not after or old is None:
        return bool(after)
    if new is None:
        return False
    positional = _positional(old)
    added = [one for one in new if one.rstrip("=") not in {known.rstrip("=") for known in old}]
    return (
        _positional(new)[: len(positional)] == positional
        and all(one in new or f"{one}=" in new for one in old)
        and all(one.endswith("=") or one.startswith("*") for one in added)
    )


def _positional(given: list[str]) -> list[str]:
    return [one.rstrip("=") for one in given if not one.startswith(("-", "*"))]


def parameters(line: str) -> list[str] | None:
    _, given, inside = line.partition("(")
    return [one for one in inside.removesuffix(")").split(", ") if one] if given else None


@pytest.mark.parametrize(
    ("after", "is_fine"),
    [
        ("f(a, -b)", True),
        ("f(a, -b=)", True),
        ("f(a=, -b)", True),
        ("f(c=, a=, -b)", False),
        ("f(a, -b, -c=)", True),
        ("f(a, c=, -b)", True),
        ("f(a, -b, -c)", False),
        ("f(-a, -b)", False),
        ("f(b, -a)", False),
        ("f(a)", False),
        ("f", False),
        ("", False),
    ],
)
def test_what_is_compatible(after: str, is_fine: bool) -> None:
    assert is_compatible("f(a, -b)", after) is is_fine


def test_breaks_are_found_by_their_names() -> None:
    text = "## 0.2\n\n### Breaks\n\n- `holdfast.Call.id` is gone.\n\n### Added\n\n- `holdfast.Other`\n"
    assert breaks(text) == {"holdfast.Call.id"}


def test_the_class_of_workers_is_found_by_its_name_of_0_1() -> None:
    with pytest.warns(DeprecationWarning, match="is called WorkerInfo"):
        assert commands.Worker is commands.WorkerInfo  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        commands.Nobody  # type: ignore[attr-defined] # noqa: B018
