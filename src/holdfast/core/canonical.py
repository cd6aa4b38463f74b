"""Canonical JSON of texts that are nested too deeply for the standard library, which recurses.

What one process can encode, another must be able to compare: how deep is too deep depends on the Python and on how far
down the caller's stack is. So this gives, to the byte, what ``json.dumps(json.loads(text), sort_keys=True,
separators=(",", ":"))`` would, with a stack of its own. It is some ten times slower.
"""

import json
import re
from typing import Any, Final

_TOKEN: Final = re.compile(r'[\[\]{},:]|"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"]+')


class _Container:
    """An array, or an object: ``key`` is that of the value which comes next."""

    def __init__(self, *, is_object: bool) -> None:
        self.is_object = is_object
        self.key: str | None = None
        self.items: list[Any] = []
        self.members: dict[str, Any] = {}

    def take(self, value: Any) -> None:
        if not self.is_object:
            self.items.append(value)
        elif self.key is None:
            self.key = json.loads(value)
        else:
            self.members[self.key] = value
            self.key = None

    def parts(self) -> list[Any]:
        if not self.is_object:
            return ["[", *_joined([[item] for item in self.items]), "]"]
        members = [[json.dumps(key), ":", value] for key, value in sorted(self.members.items())]
        return ["{", *_joined(members), "}"]


def canonical(text: str) -> str:
    """Of valid JSON."""
    document = _Container(is_object=False)
    open_containers = [document]
    for token in _TOKEN.findall(text):
        if token in "[{":
            open_containers.append(_Container(is_object=token == "{"))
        elif token in "]}":
            closed = open_containers.pop()
            open_containers[-1].take(closed.parts())
        elif token not in ",:":
            container = open_containers[-1]
            is_key = container.is_object and container.key is None
            container.take(token if is_key else json.dumps(json.loads(token)))
    return "".join(_flat(document.items))


def _joined(values: list[list[Any]]) -> list[Any]:
    joined: list[Any] = []
    for value in values:
        joined += [",", *value] if joined else value
    return joined


def _flat(parts: list[Any]) -> list[str]:
    """The texts in nested lists, in their order."""
    flat: list[str] = []
    left = [iter(parts)]
    while left:
        for part in left[-1]:
            if isinstance(part, list):
                left.append(iter(part))
                break
            flat.append(part)
        else:
            left.pop()
    return flat
