"""Charts as SVG: text in, text out, the standard library only.

      y label, unit
      |  legend
      |       o---o          an algorithm has one colour throughout (COLOURS); its points have a shape too, so that a
      |  x--x/              picture also tells in grey
      +-----------  x label, unit

Owns ``draw``. Ink is a CSS variable of the page with a default, so that a dark page may have a lighter one. A picture
scales with its page; text is large enough for a phone's width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, isfinite, log10
from xml.sax.saxutils import escape

from headrace.lab.experiment import Chart, Kind, Line

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 66, 22, 58, 48
"""``LEFT`` at the least: numbers of many digits need more, so as not to run into what the axis is called."""
DIGIT = 8.0
LEGEND_ROW = 18
COLOURS = {
    "LWO": "#7b818c", "SWF": "#c2571a", "MQT": "#1b7f79", "isolated": "#5b4b9a",
    "NAIVE": "#7b818c", "MULTI-WAY": "#1b7f79", "LAZY": "#c2571a", "GENERAL": "#1b7f79",
    "NLJ": "#7b818c", "HASH2": "#c2571a", "HASH10": "#b8860b", "HASH30": "#1b7f79",
    "Equal": "#7b818c", "1 to slow": "#1b7f79", "5 to slow": "#b8860b", "10 to slow": "#c2571a",
    "fifo": "#7b818c", "chain": "#c2571a", "path": "#1b7f79", "segment": "#b8860b", "simplified": "#5b4b9a",
    "threshold": "#c03070", "threshold, short": "#c03070", "threshold, plenty": "#4d86a8",
    "Sync-Filter": "#c2571a", "Filter-Order": "#1b7f79", "Adaptive": "#5b4b9a",
    "JDA_M": "#c2571a", "GrePP": "#b8860b", "JAQPOT": "#1b7f79", "exact": "#5b4b9a",
    "linear": "#1b7f79", "bushy": "#c2571a",
}  # fmt: skip
"""Of algorithms, the same in every picture."""
OTHERS = ("#4d86a8", "#8c564b", "#597a2b", "#a0447c")
_SHAPES = ("circle", "square", "diamond", "triangle")


def colour_of(name: str) -> str:
    """An algorithm's colour; of a name that begins with an algorithm's, that."""
    if name in COLOURS:
        return COLOURS[name]
    known = [one for one in COLOURS if name.startswith(one)]
    return COLOURS[max(known, key=len)] if known else OTHERS[sum(map(ord, name)) % len(OTHERS)]


def draw(chart: Chart) -> str:
    """The picture; its title is its text for those who cannot see it."""
    frame = _Frame(chart)
    body = "".join((*_grid(frame), *_legend(chart), *(_bars(frame) if chart.kind is Kind.BARS else _lines(frame))))
    label = escape(chart.title, {'"': "&quot;"})
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {frame.height:g}" role="img" '
        f'aria-label="{label}" font-family="system-ui, sans-serif" font-size="13">'
        f"{body}</svg>"
    )


class _Axis:
    """From values to places; with marks at round numbers."""

    def __init__(self, values: Sequence[float], begin: float, end: float, is_log: bool, from_zero: bool) -> None:
        self._is_log = is_log and min(values, default=1.0) > 0
        low, high = min(values, default=0.0), max(values, default=1.0)
        if self._is_log:
            self._low = float(floor(log10(low) + 1e-9))
            self._high = max(float(ceil(log10(high) - 1e-9)), self._low + 1)
            marks = [10.0**power for power in range(int(self._low), int(self._high) + 1)]
            self.marks = marks[:: max(1, ceil(len(marks) / 7))]
        else:
            low = min(low, 0.0) if from_zero else low
            step = _step((high - low) or abs(high) or 1.0)
            self._low, self._high = floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step
            self._high = max(self._high, self._low + step)
            count = round((self._high - self._low) / step)
            self.marks = [self._low + number * step for number in range(count + 1)]
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        place = log10(value) if self._is_log else value
        return self._begin + (place - self._low) / (self._high - self._low) * (self._end - self._begin)

    @property
    def low(self) -> float:
        """Where it begins, as a place."""
        return self._begin


def _step(span: float) -> float:
    """A round number that divides a span into about five.

    >>> [_step(span) for span in (1.0, 7.0, 0.03, 600.0)]
    [0.2, 2.0, 0.01, 200.0]
    """
    power = 10.0 ** floor(log10(span / 4))
    return next(times * power for times in (1.0, 2.0, 5.0, 10.0) if times * power >= span / 5 - 1e-12)


class _Frame:
    """A chart's axes: numbers, or names one beside the other."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.top = TOP + LEGEND_ROW * (_legend_rows(chart.lines) - 1)
        self.height = HEIGHT + self.top - TOP
        self.bottom = self.height - BOTTOM
        values = [y for line in chart.lines for y in line.ys if y is not None and isfinite(y)]
        self.y = _Axis(values, self.bottom, self.top, chart.log_y, from_zero=True)
        digits = max(len(_shown(mark)) for mark in self.y.marks)
        self.left = max(float(LEFT), 32 + DIGIT * digits)
        places = [x for line in chart.lines for x in line.xs]
        self.is_named = chart.kind is Kind.BARS or any(isinstance(x, str) for x in places)
        self.names = list(dict.fromkeys(map(_shown, places))) if self.is_named else []
        numbers = [] if self.is_named else [float(x) for x in places]
        self._x = _Axis(numbers, self.left, WIDTH - RIGHT, chart.log_x, from_zero=False)

    @property
    def slot(self) -> float:
        """The width of a name's place."""
        return (WIDTH - RIGHT - self.left) / max(len(self.names), 1)

    def x(self, value: float | str) -> float:
        if not self.is_named:
            return self._x.at(float(value))
        return self.left + (self.names.index(_shown(value)) + 0.5) * self.slot

    def marks(self) -> list[tuple[float, str]]:
        if self.is_named:
            every = max(1, ceil(sum(len(name) + 2 for name in self.names) * 7.4 / (WIDTH - self.left - RIGHT)))
            return [(self.x(name), name) for name in self.names[::every]]
        return [(self._x.at(mark), _shown(mark)) for mark in self._x.marks]


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if value and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")
    return f"{value:,.10g}" if abs(value) >= 1000 else f"{value:.6g}"


def _grid(frame: _Frame) -> Iterator[str]:
    chart, left, right = frame.chart, frame.left, WIDTH - RIGHT
    grey = 'fill="var(--quiet, #5c6470)"'
    title = 'font-weight="600" font-size="14" fill="var(--ink, #1c2026)"'
    yield f'<text x="{LEFT}" y="18" {title}>{escape(chart.title)}</text>'
    for mark in frame.y.marks:
        y = frame.y.at(mark)
        yield f'<line x1="{left:g}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--rule, #dde1e6)"/>'
        yield f'<text x="{left - 7:g}" y="{y + 4:.1f}" text-anchor="end" {grey}>{_shown(mark)}</text>'
    for x, text in frame.marks():
        yield f'<path d="M{x:.1f} {frame.bottom}v4" stroke="var(--quiet, #5c6470)"/>'
        yield f'<text x="{x:.1f}" y="{frame.bottom + 18}" text-anchor="middle" {grey}>{escape(text)}</text>'
    yield f'<line x1="{left:g}" x2="{right}" y1="{frame.bottom}" y2="{frame.bottom}" stroke="var(--quiet, #5c6470)"/>'
    centre, middle = (left + right) / 2, (frame.top + frame.bottom) / 2
    yield f'<text x="{centre:g}" y="{frame.height - 8}" text-anchor="middle" {grey}>{escape(chart.x)}</text>'
    yield (
        f'<text transform="translate(14 {middle:.1f}) rotate(-90)" text-anchor="middle" {grey}>{escape(chart.y)}</text>'
    )


def _legend_places(lines: Sequence[Line]) -> list[tuple[float, int]]:
    """Where each line's name stands: x, and its row."""
    places, x, row = [], float(LEFT), 0
    for line in lines:
        width = 26 + 7.6 * len(line.name)
        if x + width > WIDTH - RIGHT and x > LEFT:
            x, row = float(LEFT), row + 1
        places.append((x, row))
        x += width
    return places


def _legend_rows(lines: Sequence[Line]) -> int:
    return max((row for _, row in _legend_places(lines)), default=0) + 1


def _legend(chart: Chart) -> Iterator[str]:
    for number, (line, (x, row)) in enumerate(zip(chart.lines, _legend_places(chart.lines), strict=True)):
        y = 40 + row * LEGEND_ROW
        yield _point(x + 6, y - 4, number, line.name, 5)
        yield f'<text x="{x + 16:.1f}" y="{y}" fill="var(--ink, #1c2026)">{escape(line.name)}</text>'


def _lines(frame: _Frame) -> Iterator[str]:
    for number, line in enumerate(frame.chart.lines):
        points = [
            (frame.x(x), frame.y.at(y)) for x, y in zip(line.xs, line.ys, strict=True) if y is not None and isfinite(y)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour_of(line.name)}" stroke-width="2"/>'
        if len(points) <= 30:
            yield from (_point(x, y, number, line.name, 4) for x, y in points)


def _bars(frame: _Frame) -> Iterator[str]:
    lines = frame.chart.lines
    width = frame.slot * 0.8 / max(len(lines), 1)
    for number, line in enumerate(lines):
        for x, y in zip(line.xs, line.ys, strict=True):
            if y is None or not isfinite(y):
                continue
            left = frame.x(x) - 0.4 * frame.slot + number * width
            top = frame.y.at(y)
            yield (
                f'<rect x="{left:.1f}" y="{min(top, frame.bottom):.1f}" width="{width * 0.92:.1f}" '
                f'height="{max(frame.bottom - top, 0.5):.1f}" fill="{colour_of(line.name)}"/>'
            )


def _point(x: float, y: float, number: int, name: str, size: float) -> str:
    fill = f'fill="{colour_of(name)}"'
    corners: tuple[tuple[float, float], ...]
    match _SHAPES[number % len(_SHAPES)]:
        case "circle":
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" {fill}/>'
        case "square":
            side = size * 1.7
            return (
                f'<rect x="{x - side / 2:.1f}" y="{y - side / 2:.1f}" width="{side:.1f}" height="{side:.1f}" {fill}/>'
            )
        case "diamond":
            far = size * 1.25
            corners = ((x, y - far), (x + far, y), (x, y + far), (x - far, y))
        case _:
            far = size * 1.2
            corners = ((x, y - far), (x + far, y + far * 0.8), (x - far, y + far * 0.8))
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in corners)
    return f'<polygon points="{path}" {fill}/>'
