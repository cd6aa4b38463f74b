"""``make bench`` is one command for two parts."""

import pytest

from benchmarks.__main__ import split


@pytest.mark.parametrize(
    ("arguments", "for_floor", "for_peers"),
    [
        ("", [], []),
        ("--quick", ["--quick"], ["--quick"]),
        ("--floor-only", [], None),
        ("--peers-only --rounds 3", None, ["--rounds", "3"]),
        ("--only wal drain", ["--only", "wal"], ["--only", "drain"]),
        ("--only drain rest", None, ["--only", "drain", "rest"]),
        ("--only wal", ["--only", "wal"], None),
        ("--systems huey rq", None, ["--systems", "huey", "rq"]),
        ("--profile", ["--profile"], None),
    ],
)
def test_each_part_gets_what_is_its_own(
    arguments: str, for_floor: list[str] | None, for_peers: list[str] | None
) -> None:
    assert split(arguments.split()) == (for_floor, for_peers)
