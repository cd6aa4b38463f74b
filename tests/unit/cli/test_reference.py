"""The reference and the help say what the parser knows."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli import COMMANDS, build_parser, main
from holdfast.cli.exits import MEANINGS, exit_of
from holdfast.cli.reference import reference
from holdfast.core.errors import ConfigError, HoldfastError, UsageError

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "command-line.md"


def parsers(parser: argparse.ArgumentParser, name: str = "holdfast") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child, command in action.choices.items():
                yield from parsers(command, f"{name} {child}")


ALL = dict(parsers(build_parser()))


def test_the_reference_is_up_to_date() -> None:
    written = DOCUMENT.read_text(encoding="utf-8")
    assert written == reference() + "\n", f"run: python -m holdfast.cli.reference > {DOCUMENT}"


@pytest.mark.parametrize("name", [name for name in ALL if name != "holdfast"])
def test_the_reference_has_every_command_and_option(name: str) -> None:
    written = DOCUMENT.read_text(encoding="utf-8")
    _, found, rest = written.partition(f"# {name}\n")
    assert found
    section = rest.partition("\n## ")[0]
    for action in ALL[name]._actions:
        for option in action.option_strings:
            assert option in ("-h", "--help") or f"{option}" in section


@pytest.mark.parametrize("name", [name for name in ALL if name != "holdfast"])
def test_every_command_helps_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*name.split()[1:], "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "examples:" in shown
    assert f"holdfast {name.split()[1]}" in shown[shown.index("examples:") :]


def test_every_option_says_what_it_is_for() -> None:
    silent = [
        (name, action.option_strings or action.dest)
        for name, parser in ALL.items()
        for action in parser._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert silent == []


def test_every_command_that_ends_answers_machines() -> None:
    without = [name for name, parser in ALL.items() if "--json" not in parser._option_string_actions]
    assert without == ["holdfast", "holdfast worker", "holdfast server", "holdfast cluster", "holdfast cluster serve"]


def test_the_help_lists_commands_exit_codes_and_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert command in shown
    for code, meaning in MEANINGS.items():
        assert str(code.value) in shown
        assert meaning in shown
    assert "HOLDFAST_URL" in shown


def test_every_error_has_an_exit_code() -> None:
    def tree(kind: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from tree(child)

    for kind in tree(HoldfastError):
        error = kind.__new__(kind)
        assert exit_of(error) == (2 if issubclass(kind, UsageError | ConfigError) else 1)
