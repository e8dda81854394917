"""A matrix drawn as SVG: a cell's shade is its share, its text the share and the interval."""

from collections.abc import Iterator
from html import escape

from posttrain.matrix.cells import Cell, Matrix

_NAMES, _WIDTH, _HEIGHT, _TOP = 220, 110, 40, 60
_LOW, _HIGH = (255, 250, 240), (120, 180, 140)
_MARKS = {1: " ▲", 0: "", -1: " ▼"}
_STYLE = (
    "text{font:12px sans-serif;fill:#222} .small{font-size:10px;fill:#444}"
    " .up{fill:#1b6e32} .down{fill:#b3261e} rect{stroke:#fff}"
)
_LEGEND = (
    "▲ ▼ changed from the checkpoint before, p &lt; 0.05 (paired, uncorrected); intervals 95 %"
)


def svg(matrix: Matrix) -> str:
    """The picture, as the text of an SVG file."""
    width = _NAMES + _WIDTH * len(matrix.checkpoints) + 20
    height = _TOP + _HEIGHT * len(matrix.capabilities) + 40
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {max(width, 540)} {height}">',
            f"<title>{escape(matrix.run)}: capabilities by checkpoint</title>",
            f"<style>{_STYLE}</style>",
            *_names(matrix),
            *_cells(matrix),
            f'<text class="small" x="10" y="{height - 15}">{_LEGEND}</text>',
            "</svg>\n",
        ]
    )


def _names(matrix: Matrix) -> Iterator[str]:
    yield f'<text x="10" y="20">{escape(matrix.run)}</text>'
    for column, name in enumerate(matrix.checkpoints):
        x = _NAMES + _WIDTH * (column + 0.5)
        yield f'<text x="{x:g}" y="{_TOP - 10}" text-anchor="middle">{escape(name)}</text>'
    for row, name in enumerate(matrix.capabilities):
        y = _TOP + _HEIGHT * (row + 0.5) + 4
        yield f'<text x="{_NAMES - 10}" y="{y:g}" text-anchor="end">{escape(name)}</text>'


def _cells(matrix: Matrix) -> Iterator[str]:
    for row, capability in enumerate(matrix.capabilities):
        for column, checkpoint in enumerate(matrix.checkpoints):
            if found := matrix.cells.get((capability, checkpoint)):
                yield _cell(found, _NAMES + _WIDTH * column, _TOP + _HEIGHT * row)


def _cell(cell: Cell, x: int, y: int) -> str:
    middle, shade = x + _WIDTH // 2, _shade(cell.accuracy)
    tone = {1: ' class="up"', 0: "", -1: ' class="down"'}[cell.change]
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" fill="{shade}"/>'
        f'<text{tone} x="{middle}" y="{y + 17}" text-anchor="middle">'
        f"{cell.accuracy:.3f}{_MARKS[cell.change]}</text>"
        f'<text class="small" x="{middle}" y="{y + 32}" text-anchor="middle">'
        f"{cell.low:.3f} to {cell.high:.3f}</text>"
    )


def _shade(share: float) -> str:
    mixed = (round(low + share * (high - low)) for low, high in zip(_LOW, _HIGH, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
