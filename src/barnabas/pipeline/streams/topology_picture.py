"""A topology as a picture in SVG: a frame for each sub-topology, and topics between them."""

import html
from collections.abc import Iterator
from typing import Final

import attrs

from barnabas.pipeline.streams.topology_nodes import Processor, ProcessorKind, Topology
from barnabas.pipeline.streams.topology_text import SubTopology, sub_topologies

_CHARACTER: Final = 6.7
_LINE: Final = 16
_GAP_X: Final = 48
_GAP_Y: Final = 20
_MARGIN: Final = 24
_STYLE: Final = (
    "text{font:11px monospace;fill:#222}.part{fill:none;stroke:#999;stroke-dasharray:5 4}"
    ".source,.sink{fill:#dcecf9;stroke:#2a6496}.processor{fill:#f6f6f6;stroke:#555}"
    "path{fill:none;stroke:#555}.topic{stroke:#2a6496;stroke-dasharray:3 3}"
)


@attrs.frozen
class _Box:
    """The place of a processor in the picture."""

    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    kind: ProcessorKind

    def shape(self) -> Iterator[str]:
        """Yield the elements of the box."""
        place = f'x="{self.x:.0f}" y="{self.y:.0f}" width="{self.width:.0f}"'
        radius = 3 if self.kind is ProcessorKind.PROCESSOR else 10
        name = self.kind.value.lower()
        yield f'<rect class="{name}" {place} height="{self.height:.0f}" rx="{radius}"/>'
        for number, line in enumerate(self.lines):
            y = self.y + _LINE * (number + 1)
            yield f'<text x="{self.x + 8:.0f}" y="{y:.0f}">{html.escape(line)}</text>'


def svg_of(topology: Topology) -> str:
    """Return the picture of a topology."""
    boxes: dict[str, _Box] = {}
    elements: list[str] = []
    y, width = float(_MARGIN), 0.0
    parts = sub_topologies(topology)
    for part in parts:
        placed = _placed(part, y + _LINE + 8)
        right = max(each.x + each.width for each in placed.values()) + _MARGIN / 2
        bottom = max(each.y + each.height for each in placed.values()) + _MARGIN / 2
        label = f"Sub-topology: {part.number}{' (global store)' if part.is_global else ''}"
        frame = f'x="{_MARGIN / 2:.0f}" y="{y:.0f}" width="{right - _MARGIN / 2:.0f}"'
        elements.append(f'<rect class="part" {frame} height="{bottom - y:.0f}"/>')
        elements.append(f'<text x="{_MARGIN}" y="{y + _LINE:.0f}">{label}</text>')
        boxes |= placed
        y, width = bottom + _MARGIN, max(width, right)
    elements += _arrows(parts, boxes)
    for box in boxes.values():
        elements += box.shape()
    size = f'width="{width + _MARGIN / 2:.0f}" height="{y:.0f}"'
    body = "\n".join([f"<style>{_STYLE}</style>", _ARROW, *elements])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{body}\n</svg>\n'


_ARROW: Final = (
    '<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
    '<path d="M0,0 L7,3 L0,6"/></marker></defs>'
)


def _placed(part: SubTopology, top: float) -> dict[str, _Box]:
    """Return the boxes of a part: the column of one is the length of its longest way."""
    columns: dict[int, list[Processor]] = {}
    depths: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in depths:
            before = part.predecessors[name]
            depths[name] = 1 + max((depth(each) for each in before), default=-1)
        return depths[name]

    for each in part.processors:
        columns.setdefault(depth(each.name), []).append(each)
    found: dict[str, _Box] = {}
    x = float(_MARGIN)
    for _, processors in sorted(columns.items()):
        y, right = top, x
        for each in processors:
            lines = _lines(each)
            width = max(map(len, lines)) * _CHARACTER + 16
            height = _LINE * len(lines) + 8
            found[each.name] = _Box(x, y, width, height, lines, each.kind)
            y, right = y + height + _GAP_Y, max(right, x + width)
        x = right + _GAP_X
    return found


def _lines(processor: Processor) -> tuple[str, ...]:
    """Return the name of a processor, its topic and its stores."""
    topic = [] if processor.topic is None else [f"topic {processor.topic}"]
    stores = [f"store {each}" for each in processor.stores]
    return processor.name, *topic, *stores


def _arrows(parts: list[SubTopology], boxes: dict[str, _Box]) -> Iterator[str]:
    """Yield the ways of records, through topics of the app, too."""
    processors = [each for part in parts for each in part.processors]
    sources = {each.topic: each for each in processors if each.kind is ProcessorKind.SOURCE}
    for each in processors:
        for name in each.predecessors:
            yield _arrow(boxes[name], boxes[each.name], "record")
        if each.kind is ProcessorKind.SINK and each.topic in sources:
            yield _arrow(boxes[each.name], boxes[sources[each.topic].name], "topic")


def _arrow(left: _Box, right: _Box, kind: str) -> str:
    x, y = left.x + left.width, left.y + left.height / 2
    end_x, end_y = right.x, right.y + right.height / 2
    bend = _GAP_X / 2
    curve = f"C{x + bend:.0f},{y:.0f} {end_x - bend:.0f},{end_y:.0f} {end_x:.0f},{end_y:.0f}"
    return f'<path class="{kind}" marker-end="url(#arrow)" d="M{x:.0f},{y:.0f} {curve}"/>'
