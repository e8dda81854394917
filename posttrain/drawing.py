"""A plan drawn as SVG: layers from left to right, an arrow for each input.

A node's layer is one more than the highest of its inputs. Within a layer nodes are ordered by where
their neighbours are, which keeps most arrows from crossing.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from statistics import fmean

from posttrain.plan import Node, Plan

_WIDTH, _HEIGHT = 150, 36
_ACROSS, _DOWN = 210, 52
_MARGIN = 20
_SWEEPS = 4
_LETTERS = 20
_FILL = {"cached": "#d9ead3", "run": "#cfe2f3", "blocked": "#f4cccc"}
_STYLE = (
    "text{font:12px sans-serif;fill:#222} .kind{font-size:10px;fill:#555}"
    " rect{stroke:#666;rx:5} path{fill:none;stroke:#999;marker-end:url(#tip)}"
)
_TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7"'
    ' orient="auto"><path d="M0,0 L8,4 L0,8 z" style="fill:#999;stroke:none;marker-end:none"/>'
    "</marker>"
)

Place = tuple[float, float]


def svg(plan: Plan) -> str:
    """The picture, as the text of an SVG file."""
    places = _places(layers(plan))
    width = max((x for x, _ in places.values()), default=0) + _WIDTH + _MARGIN
    height = max((y for _, y in places.values()), default=0) + _HEIGHT + _MARGIN
    body = [*_arrows(plan, places), *_boxes(plan, places)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
            f"<title>plan of {escape(plan.recipe.name)}</title>",
            f"<style>{_STYLE}</style><defs>{_TIP}</defs>",
            *body,
            "</svg>\n",
        ]
    )


def layers(plan: Plan) -> list[list[str]]:
    """Names by layer, in the order they are drawn in."""
    depth: dict[str, int] = {}
    for node in plan.nodes.values():  # Inputs stand before their users.
        depth[node.name] = 1 + max((depth[each] for each in node.inputs.values()), default=-1)
    found: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, column in depth.items():
        found[column].append(name)
    before = {node.name: set(node.inputs.values()) for node in plan.nodes.values()}
    after = {name: {user for user in before if name in before[user]} for name in before}
    for sweep in range(_SWEEPS):
        near, order = (before, found) if sweep % 2 == 0 else (after, found[::-1])
        for layer in order:
            _sort(layer, found, near)
    return found


def _sort(layer: list[str], all_layers: Sequence[list[str]], near: Mapping[str, set[str]]) -> None:
    """Order a layer by the mean place of each node's neighbours; it stays where it has none."""
    at = {name: index for each in all_layers for index, name in enumerate(each)}
    layer.sort(key=lambda name: fmean(at[other] for other in near[name] or {name}))


def _places(found: Sequence[Sequence[str]]) -> dict[str, Place]:
    tallest = max((len(layer) for layer in found), default=0)
    places: dict[str, Place] = {}
    for column, layer in enumerate(found):
        top = _MARGIN + (tallest - len(layer)) * _DOWN / 2
        for row, name in enumerate(layer):
            places[name] = (_MARGIN + column * _ACROSS, top + row * _DOWN)
    return places


def _arrows(plan: Plan, places: Mapping[str, Place]) -> Iterator[str]:
    for node in plan.nodes.values():
        right, lower = places[node.name]
        for source in dict.fromkeys(node.inputs.values()):
            x, y = places[source][0] + _WIDTH, places[source][1] + _HEIGHT / 2
            bend = (right - x) / 2
            end = f"{right:g},{lower + _HEIGHT / 2:g}"
            yield (
                f'<path d="M{x:g},{y:g} C{x + bend:g},{y:g} {right - bend:g},'
                f'{lower + _HEIGHT / 2:g} {end}"/>'
            )


def _boxes(plan: Plan, places: Mapping[str, Place]) -> Iterator[str]:
    for node in plan.nodes.values():
        x, y = places[node.name]
        yield (
            f'<g><title>{escape(_hint(node))}</title><rect x="{x:g}" y="{y:g}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" fill="{_FILL[node.state]}"/>'
            f'<text x="{x + 8:g}" y="{y + 15:g}">{escape(_fitting(node.name))}</text>'
            f'<text class="kind" x="{x + 8:g}" y="{y + 29:g}">{node.kind}, {node.state}</text></g>'
        )


def _fitting(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def _hint(node: Node) -> str:
    more = node.blocked or (node.cached.address if node.cached else f"key {node.key}")
    return f"{node.name}: {more}"
