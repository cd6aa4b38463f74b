"""The table of mutants fits the code. Whether each is noticed is what ``make mutants`` asks."""

import re
from pathlib import Path

import pytest

from mutants.table import BrokenTable, Edit, Mutant, load

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", load(), ids=str)
def test_every_mutant_still_fits_the_code(mutant: Mutant) -> None:
    for edit in mutant.edits:
        text = (ROOT / edit.file).read_text()
        assert text.count(edit.find) == 1, f"{edit.file} does not have this text once:\n{edit.find}"
        assert edit.find != edit.replace


@pytest.mark.parametrize("mutant", load(), ids=str)
def test_every_mutant_is_a_program(mutant: Mutant) -> None:
    """One that cannot be compiled fails every test, and says nothing of those that it names."""
    changed: dict[str, str] = {}
    for edit in mutant.edits:
        text = changed.get(edit.file) or (ROOT / edit.file).read_text()
        changed[edit.file] = text.replace(edit.find, edit.replace)
    for file, text in changed.items():
        if file.endswith(".py"):
            compile(text, file, "exec")


@pytest.mark.parametrize("mutant", load(), ids=str)
def test_the_tests_beside_a_mutant_exist(mutant: Mutant) -> None:
    for test in mutant.tests:
        file, _, name = test.partition("::")
        function = re.sub(r"\[.*", "", name.split("::")[-1])
        assert (ROOT / file).exists(), test
        assert not function or f"def {function}(" in _with_shipped_suites(ROOT / file), test


def _with_shipped_suites(file: Path) -> str:
    """A conformance test stands in the suite that is shipped, and is only collected where it is run."""
    text = file.read_text()
    if "conformance" in file.parts:
        text += "".join(path.read_text() for path in (ROOT / "src/holdfast/testing/store_suite").glob("*.py"))
    return text


def test_an_edit_that_does_not_fit_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\none\n")
    with pytest.raises(BrokenTable, match="2 times"):
        Edit(file="a.py", find="one", replace="two").apply(tmp_path)
