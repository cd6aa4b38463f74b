"""What ``holdfast`` exports, and that asking for it costs nothing before it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast


@pytest.mark.parametrize("name", holdfast.__all__)
def test_a_public_name_can_be_had(name: str) -> None:
    assert getattr(holdfast, name) is not None
    assert name in dir(holdfast)


def test_type_checkers_see_the_same_names_in_the_same_places() -> None:
    assert holdfast.__file__ is not None
    tree = ast.parse(Path(holdfast.__file__).read_text(encoding="utf-8"))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == holdfast._HOME_OF
    assert set(seen) == set(holdfast.__all__)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Celery'"):
        holdfast.Celery  # noqa: B018


def test_importing_the_package_imports_no_part_of_it() -> None:
    code = "import holdfast, sys; print([name for name in sys.modules if name.startswith('holdfast.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
