"""Tables and fields for people.

A terminal gets rich's tables. Anything else gets plain aligned columns, one line a row, nothing cut off: made for grep.
"""

import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

Cell = str | Text
GAP: Final = 2
NARROWEST: Final = 5
"""To which a column may be cut."""
NUMBER: Final = ">"
"""Before a column's title: its values are numbers, never cut."""
WHOLE: Final = "!"
"""Before a column's title: its values are never cut, since they are copied."""


class PipeConsole(Console):
    """rich ends the program itself when a pipe breaks; how a command ends is decided in ``main``."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def console() -> Console:
    return PipeConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)


def error_console() -> Console:
    return PipeConsole(file=sys.stderr, highlight=False, markup=False, emoji=False)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if sys.stdout.isatty():
        screen = console()
        screen.print(table(columns, rows, width=screen.width))
        return
    for line in plain_table(columns, rows):
        print(line)


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, width: int) -> Table:
    """Cells are given as they are: nothing in them is taken for markup."""
    made = Table(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
    for column, fitted in zip(columns, _fitted(columns, rows, width), strict=True):
        made.add_column(
            column.lstrip(NUMBER + WHOLE),
            justify="right" if column.startswith(NUMBER) else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=fitted,
        )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made


def _fitted(columns: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """What each column gets: all it wants where there is room, else the widest ones that may be cut give way."""
    wanted = _widths([column.lstrip(NUMBER + WHOLE) for column in columns], rows)
    may_be_cut = [index for index, column in enumerate(columns) if not column.startswith((NUMBER, WHOLE))]
    excess = sum(wanted) + GAP * (len(columns) - 1) - width
    while excess > 0 and may_be_cut:
        widest = max(may_be_cut, key=wanted.__getitem__)
        if wanted[widest] <= NARROWEST:
            break
        wanted[widest] -= 1
        excess -= 1
    return wanted


def _widths(titles: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[int]:
    lines = [titles, *rows]
    return [max(cell_len(str(line[index])) for line in lines) for index in range(len(titles))]


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    titles = [column.lstrip(NUMBER + WHOLE).upper() for column in columns]
    lines = [titles, *([str(cell) for cell in row] for row in rows)]
    widths = _widths(titles, rows)
    return ["  ".join(_padded(columns, line, widths)).rstrip() for line in lines]


def _padded(columns: Sequence[str], line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        " " * (width - cell_len(cell)) + cell if column.startswith(NUMBER) else cell + " " * (width - cell_len(cell))
        for column, cell, width in zip(columns, line, widths, strict=True)
    ]


def show_fields(fields: Sequence[tuple[str, Cell]]) -> None:
    """Names and values, one a line."""
    width = max(len(name) for name, _ in fields)
    screen = console()
    for name, value in fields:
        screen.print(Text(f"{name:<{width}}", style="dim"), value, sep="  ", soft_wrap=True)


def show_section(title: str, text: str) -> None:
    screen = console()
    screen.print()
    screen.print(Text(title, style="bold"))
    if text:
        screen.print(text, soft_wrap=True)
