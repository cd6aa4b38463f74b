"""The ``holdfast …`` commands in a document's blocks: shell, systemd units, container files."""

import argparse
import json
import re
import shlex
from collections.abc import Iterator

from holdfast.cli import build_parser, command_names

SEPARATORS = {"|", "||", "&", "&&", ";", "<", ">", ">>"}


def in_block(block: str) -> Iterator[list[str]]:
    """Each command's words, without ``holdfast`` itself."""
    for listed in re.findall(r'\["holdfast".*?\]', block):
        yield json.loads(listed)[1:]
    for line in re.sub(r" *\\\n *", " ", block).splitlines():
        # What stands apart behind a command explains it.
        text = re.sub(r"  +.*", "", line.strip().removeprefix("ExecStart=").removeprefix("$ "))
        if "holdfast" in text and not text.startswith("#"):
            yield from in_line(text)


def in_line(line: str) -> Iterator[list[str]]:
    reader = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError:  # an output, with an apostrophe in it
        return
    while words:
        end = next((number for number, word in enumerate(words) if word in SEPARATORS), len(words))
        yield from _ours(words[:end])
        words = words[end + 1 :]


def _ours(words: list[str]) -> Iterator[list[str]]:
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    if words and re.fullmatch(r"(.*/)?holdfast", words[0]):
        yield words[1:]


def parse(words: list[str]) -> None:
    """SystemExit where the command line would refuse them; nothing is run."""
    if words != ["--help"]:
        build_parser().parse_args(words)


def is_known(said: str) -> bool:
    """Whether a command named in a sentence exists, and has the options it is named with."""
    parser = build_parser()
    words = said.split()[1:]
    if words[0].startswith("-") or not words[0].isalpha() or not words[0].islower():
        return True
    if words[0] not in command_names(parser):
        return False
    known = _options(parser, words)
    return all(word.partition("=")[0] in known for word in words if re.match(r"--\w", word))


def _options(parser: argparse.ArgumentParser, words: list[str]) -> set[str]:
    """Of a command, and of its action where one is named."""
    known = set(parser._option_string_actions)
    for action in parser._actions:
        if words and isinstance(action, argparse._SubParsersAction) and words[0] in action.choices:
            known |= _options(action.choices[words[0]], words[1:])
    return known
