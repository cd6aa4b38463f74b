"""The model of the lifecycle speaks of the same states, transitions and invariants as the code (``models/``).

The model itself is checked by ``make model``, which needs Java.
"""

import re
from pathlib import Path

import pytest

from holdfast.core.states import LIVE, REPLAYABLE, TERMINAL, TRANSITIONS, State

ROOT = Path(__file__).parents[3]
MODELS = ROOT / "models"
MODEL = (MODELS / "Lifecycle.tla").read_text(encoding="utf-8")
CORE = (ROOT / "src" / "holdfast" / "core" / "README.md").read_text(encoding="utf-8")
NUMBERED = re.compile(r"^([A-Z]+_\d+)_(\w+) ==", re.MULTILINE)
CONFIGURATIONS = sorted(MODELS.glob("*.cfg"))


def rows(name: str) -> list[tuple[str, ...]]:
    found = re.search(rf"^{name} == {{\n(.*?)^}}", MODEL, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{name} is not in the model"
    return [tuple(re.findall(r'"([^"]*)"', row)) for row in re.findall(r"<<(.*?)>>", found[1])]


def states(name: str) -> set[str]:
    found = re.search(rf"^{name} == {{(.*)}}$", MODEL, re.MULTILINE)
    assert found is not None, f"{name} is not in the model"
    return set(re.findall(r'"(\w+)"', found[1]))


def test_the_model_s_table_is_the_code_s() -> None:
    """STATE-2, in both directions."""
    assert set(rows("Table")) == {(row.source or "-", row.target, row.trigger) for row in TRANSITIONS}
    assert len(rows("Table")) == len(TRANSITIONS)


def test_what_no_run_reaches_is_a_row_of_the_table() -> None:
    assert set(rows("Unreached")) < set(rows("Table"))


def test_the_model_s_groups_of_states_are_the_code_s() -> None:
    assert states("Live") == set(LIVE)
    assert states("Terminal") == set(TERMINAL)
    assert states("Replayable") == set(REPLAYABLE)
    assert states("Live") | states("Terminal") == set(State)


def test_every_invariant_of_the_model_is_checked_in_some_configuration() -> None:
    lines = [line.strip() for path in CONFIGURATIONS for line in path.read_text(encoding="utf-8").splitlines()]
    checked = {line for line in lines if re.fullmatch(r"[A-Z]+_\d+_\w+", line)}
    assert checked == {f"{number}_{name}" for number, name in NUMBERED.findall(MODEL)}


@pytest.mark.parametrize("code", sorted({number.replace("_", "-") for number, _ in NUMBERED.findall(MODEL)}))
def test_an_invariant_of_the_model_has_its_code_in_the_core_s_list(code: str) -> None:
    listed = re.search(r"^## What the model checks$(.*)", CORE, re.DOTALL | re.MULTILINE)
    assert listed is not None
    assert re.search(rf"\b{code}\b", listed[1]), f"{code} is not listed in core/README.md"
