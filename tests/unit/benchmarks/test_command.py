"""``make bench`` is one command for three parts."""

import pytest

from benchmarks.__main__ import Arguments, split


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", Arguments(floor=[], peers=[], curves=[])),
        ("--quick", Arguments(floor=["--quick"], peers=["--quick"], curves=["--quick"])),
        ("--floor-only", Arguments(floor=[])),
        ("--peers-only --rounds 3", Arguments(peers=["--rounds", "3"])),
        ("--rounds 3", Arguments(floor=[], peers=["--rounds", "3"])),
        ("--curves-only --quick", Arguments(curves=["--quick"])),
        ("--only wal drain", Arguments(floor=["--only", "wal"], peers=["--only", "drain"])),
        ("--only drain rest", Arguments(peers=["--only", "drain", "rest"])),
        ("--only wal", Arguments(floor=["--only", "wal"])),
        ("--only wal flame", Arguments(floor=["--only", "wal"], curves=["--only", "flame"])),
        ("--systems huey rq", Arguments(peers=["--systems", "huey", "rq"])),
        ("--profile", Arguments(floor=["--profile"])),
    ],
)
def test_each_part_gets_what_is_its_own(arguments: str, expected: Arguments) -> None:
    assert split(arguments.split()) == expected


def test_a_name_that_two_parts_know_is_the_curves_only_where_only_they_are_wanted() -> None:
    assert split(["--only", "backlog"]) == Arguments(floor=["--only", "backlog"])
    assert split(["--curves-only", "--only", "backlog"]) == Arguments(curves=["--only", "backlog"])


def test_what_no_part_has_is_refused() -> None:
    with pytest.raises(SystemExit):
        split(["--curves-only", "--only", "drain"])
