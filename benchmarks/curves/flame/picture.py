"""A flame graph as SVG: boxes that tell what they are when the pointer rests on them. Pure."""

import zlib
from collections.abc import Sequence
from html import escape
from typing import Final

from benchmarks.curves.flame.fold import Box

WIDTH: Final = 1200
ROW: Final = 17
MARGIN: Final = 30
LETTER: Final = 6.3
"""Points a character, about."""
COLOURS: Final = {
    "holdfast/": (31, 111, 139),
    "asyncpg/": (214, 125, 50),
    "asyncio/": (150, 150, 170),
    "benchmarks/": (110, 160, 90),
}
STYLE: Final = "text{font:11px monospace;pointer-events:none}rect{stroke:#fff;stroke-width:.5}rect:hover{stroke:#000}"
OTHER: Final = (196, 164, 90)


def flame(boxes: Sequence[Box], *, title: str) -> str:
    rows = max(box.depth for box in boxes) + 1
    height = rows * ROW + MARGIN + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fdfdfb"/>',
        f'<text x="8" y="18" style="font-size:13px">{escape(title)}</text>',
    ]
    lines += [_box(box, top=height - 5 - (box.depth + 1) * ROW) for box in boxes]
    return "\n".join([*lines, "</svg>", ""])


def _box(box: Box, *, top: float) -> str:
    left, width = box.start * WIDTH, box.width * WIDTH
    label = box.frame[: max(0, int((width - 6) / LETTER))]
    text = f'<text x="{left + 3:.1f}" y="{top + 12:.0f}">{escape(label)}</text>' if len(label) > 2 else ""
    place = f'x="{left:.1f}" y="{top:.0f}" width="{width:.1f}" height="{ROW - 1}"'
    about = f"<title>{escape(box.frame)}: {box.width:.1%}</title>"
    return f'<g>{about}<rect {place} fill="{_colour(box.frame)}"/>{text}</g>'


def _colour(frame: str) -> str:
    """By package; neighbours differ a little, and the same frame is always the same."""
    base = next((colour for place, colour in COLOURS.items() if f"({place}" in frame), OTHER)
    shade = zlib.crc32(frame.encode()) % 50 / 100
    return "#" + "".join(f"{round(part + (255 - part) * (0.25 + shade)):02x}" for part in base)
