"""What a command loads: only what it needs."""

import subprocess
import sys

import pytest

from holdfast.cli import GROUPS, build_parser

LOADED = """
import sys
from holdfast.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*(name for name in sys.modules if name.startswith(("holdfast.designs", "hdrh", "matplotlib", "grpc"))))
"""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["worker", "--help"], ["server", "--help"], ["worker", "tests.nowhere:app"], ["types"]],
    ids=" ".join,
)
def test_only_their_own_commands_load_the_designs(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == ""


def test_the_help_groups_commands() -> None:
    text = build_parser().format_help()
    places = [text.index(f"  {title}:") for title in GROUPS]
    assert list(GROUPS) == ["your jobs", "operate", "measure and compare"]
    assert places == sorted(places)
