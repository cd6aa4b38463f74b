"""A report as blocks, written twice: as Markdown, and as one HTML page that needs nothing else. Pure."""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `code` and **bold** mean what they mean in Markdown."""

    text: str


@dataclass(frozen=True, slots=True)
class Points:
    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Plot:
    name: str
    title: str
    svg: str
    below: str = ""


Block = Heading | Text | Points | Table | Plot

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2429; --soft: #5c6b73; --line: #d6dde1; --paper: #ffffff; --tint: #f4f7f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4eaed; --soft: #9fb0b8; --line: #35434b; --paper: #12181c; --tint: #1a2329; }
}
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 72rem; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.4rem; border-bottom: 1px solid var(--line); }
h3 { margin-top: 1.6rem; } p, li { max-width: 52rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.3rem 0.7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { background: var(--tint); } code { background: var(--tint); padding: 0 0.25em; border-radius: 3px; }
figure { margin: 1.2rem 0; padding: 0.6rem; background: #ffffff; border: 1px solid var(--line); border-radius: 6px;
  overflow-x: auto; }
figure svg { max-width: 100%; height: auto; } figcaption { color: #5c6b73; font-size: 13px; }
"""


def markdown(title: str, blocks: Sequence[Block]) -> str:
    return "\n".join([f"# {title}", "", *(line for block in blocks for line in _markdown(block))])


def _markdown(block: Block) -> Iterator[str]:
    match block:
        case Heading(text, level):
            yield f"{'#' * level} {text}"
        case Text(text):
            yield text
        case Points(items):
            yield from (f"- {item}" for item in items)
        case Table(head, rows):
            yield f"| {' | '.join(head)} |"
            yield f"|{' --- |' * len(head)}"
            yield from (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
        case Plot(name, plot_title, _, below):
            yield f"![{plot_title}]({name}.svg)"
            if below:
                yield ""
                yield below
    yield ""


def page(title: str, blocks: Sequence[Block]) -> str:
    body = "\n".join(_html(block) for block in blocks)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{_inline(title)}</h1>\n{body}\n</body></html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Points(items):
            return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>"
        case Table(head, rows):
            top = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
            lines = "".join(f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in rows)
            return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>'
        case Plot(name, plot_title, svg, below):
            caption = f"{_inline(plot_title)}. {_inline(below)}"
            return f'<figure id="{name}">{_embedded(name, svg)}<figcaption>{caption}</figcaption></figure>'


def _inline(text: str) -> str:
    safe = html.escape(text, quote=False)
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", safe)


def _embedded(name: str, svg: str) -> str:
    """The drawing without its prologue, and with IDs that no other drawing on the page has."""
    drawing = svg[svg.index("<svg") :]
    for attribute in ('id="', 'href="#', "url(#"):
        drawing = drawing.replace(attribute, f"{attribute}{name}-")
    return drawing


def from_markdown(text: str) -> list[Block]:
    """What a person wrote: headings, paragraphs, lists with ``-`` and tables."""
    return [_read(part) for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]


def _read(part: str) -> Block:
    lines = part.strip().splitlines()
    if found := re.fullmatch(r"(#{1,6}) (.+)", lines[0]):
        # Below the report's own heading.
        return Heading(found[2], min(6, len(found[1]) + 1) if len(found[1]) > 1 else 3)
    if lines[0].startswith("- "):
        items = re.split(r"\n- ", "\n" + part.strip())
        return Points([" ".join(item.split()) for item in items if item.strip()])
    if lines[0].startswith("|"):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
        return Table(rows[0], rows[2:])
    return Text(" ".join(part.split()))
