"""Boxes and lines as an SVG document: what pictures of plans are made of.

Owns :class:`Box`, and the text of boxes, lines and documents; the standard library only. Where things stand is the
business of who draws. Cost: linear in what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from headrace.plan.explain_graph import shortened

WIDTH, HEIGHT = 230, 62
"""Of a box."""
GAP_X, GAP_Y = 26, 54
MARGIN = 24
_CHARACTERS = 38
"""That fit in a box."""


@dataclass(frozen=True, slots=True)
class Box:
    """Something drawn: where, what it says, and how."""

    x: float
    y: float
    lines: tuple[str, ...]
    fill: str
    border: float = 1.0
    dash: str = ""
    stroke: str = "#444"

    @property
    def top(self) -> tuple[float, float]:
        return self.x + WIDTH / 2, self.y

    @property
    def bottom(self) -> tuple[float, float]:
        return self.x + WIDTH / 2, self.y + HEIGHT


def svg_document(width: float, height: float, drawn: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *drawn, "</svg>"]) + "\n"


def edge_line(begin: tuple[float, float], end: tuple[float, float], stroke: str = "#888", width: float = 1.0) -> str:
    middle = (begin[1] + end[1]) / 2
    way = f"M{begin[0]:.0f},{begin[1]:.0f} C{begin[0]:.0f},{middle:.0f} {end[0]:.0f},{middle:.0f}"
    thick = f' stroke-width="{width:g}"' if width != 1 else ""
    return f'<path d="{way} {end[0]:.0f},{end[1]:.0f}" fill="none" stroke="{stroke}"{thick}/>'


def text_line(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{escape(text)}</text>'


def box_lines(box: Box) -> Iterator[str]:
    dash = f' stroke-dasharray="{box.dash}"' if box.dash else ""
    title = escape(chr(10).join(box.lines))
    yield (
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{box.fill}" '
        f'stroke="{box.stroke}" stroke-width="{box.border}"{dash}><title>{title}</title></rect>'
    )
    for number, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if not number else ""
        yield text_line(box.x + 8, box.y + 18 + 16 * number, shortened(line, _CHARACTERS), weight)
