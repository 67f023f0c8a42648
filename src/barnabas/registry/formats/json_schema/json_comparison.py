"""The state of one comparison: the policy, the pairs that are known, the steps left.

A pair that is being compared counts as compatible, which makes recursive schemas work. A verdict
that rests on such an assumption about an outer pair is not remembered, as the assumption may prove
wrong. Steps are counted; a comparison that takes too many is refused.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from barnabas.registry.formats.json_schema.json_hints import hint_for
from barnabas.registry.formats.json_schema.json_types import Node, ReferenceNode
from barnabas.registry.formats.schema_format import (
    CompatibilityPolicy,
    Incompatibility,
    SchemaTooComplexError,
)

# The last part and the path before it: extending one costs the same at any depth.
Path = tuple["Path", str] | None

STEPS_MAX = 100_000

_LENIENT = frozenset(
    {
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "UNEVALUATED_PROPERTIES_NARROWED",
        "UNEVALUATED_PROPERTIES_REMOVED",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    }
)

Compare = Callable[["Comparison", Node, Node, Path], Iterator[Incompatibility]]


class Comparison:
    """One comparison of two schemas."""

    def __init__(self, policy: CompatibilityPolicy, compare: Compare) -> None:
        self._accepted = _LENIENT if policy is CompatibilityPolicy.LENIENT else frozenset[str]()
        self._compare = compare
        self._steps = 0
        self._verdicts: dict[tuple[int, int], bool] = {}
        self._open: dict[tuple[int, int], int] = {}
        self._assumed_depth = 0  # the outermost open pair that the current verdict rests on

    def differences(self, old: Node, new: Node, path: Path) -> Iterator[Incompatibility]:
        """Yield each difference that makes ``new`` refuse what ``old`` accepts."""
        old, new = _followed(old), _followed(new)
        pair = (id(old), id(new))
        depth = self._open.get(pair)
        if depth is not None:
            self._assumed_depth = min(self._assumed_depth, depth)
            return
        if self._verdicts.get(pair):
            return
        self.count_steps(1)
        yield from self._compared(pair, old, new, path)

    def _compared(
        self, pair: tuple[int, int], old: Node, new: Node, path: Path
    ) -> Iterator[Incompatibility]:
        outer_assumed = self._assumed_depth
        depth = self._assumed_depth = len(self._open)
        self._open[pair] = depth
        is_compatible = True
        try:
            for difference in self._compare(self, old, new, path):
                if difference.rule not in self._accepted:
                    is_compatible = False
                    yield difference
        finally:
            self._open.pop(pair, None)
            if is_compatible and self._assumed_depth >= depth:
                self._verdicts[pair] = True
            self._assumed_depth = min(outer_assumed, self._assumed_depth)

    def count_steps(self, steps: int) -> None:
        """Count work that has been done.

        Raises SchemaTooComplexError when there have been too many steps.
        """
        self._steps += steps
        if self._steps > STEPS_MAX:
            raise SchemaTooComplexError("too complex: the comparison takes too many steps")

    def is_compatible(self, old: Node, new: Node) -> bool:
        """True when ``new`` accepts all that ``old`` accepts."""
        self.count_steps(1)
        pair = (id(_followed(old)), id(_followed(new)))
        known = self._verdicts.get(pair)
        if known is not None:
            return known
        found = self.differences(old, new, None)
        is_compatible = next(found, None) is None
        if not is_compatible:
            found.close()  # type: ignore[attr-defined]
            self._verdicts[pair] = False
        return is_compatible

    def optional(self, old: Node | None, new: Node | None, path: Path) -> Iterator[Incompatibility]:
        """Yield the differences of two schemas that may be absent."""
        if new is None:
            return
        if old is None:
            yield self.difference("SCHEMA_ADDED", path, None, None)
        else:
            yield from self.differences(old, new, path)

    def difference(self, rule: str, path: Path, old: Any, new: Any) -> Incompatibility:
        """Return one difference: ``old`` is the writer's side, ``new`` the reader's."""
        return Incompatibility(rule, pointer(path), _shown(new), _shown(old), hint_for(rule))


def changed_bounds(
    c: Comparison, old: dict[str, Fraction], new: dict[str, Fraction], path: Path
) -> Iterator[Incompatibility]:
    """Yield the bounds of ``new`` that are tighter than those of ``old``."""
    for keyword, bound in new.items():
        name = "".join(f"_{char}" if char.isupper() else char for char in keyword).upper()
        is_upper = "MAX" in name
        before = old.get(keyword)
        if before is None:
            yield c.difference(f"{name}_ADDED", (path, keyword), None, bound)
        elif (bound < before) if is_upper else (bound > before):
            change = "DECREASED" if is_upper else "INCREASED"
            yield c.difference(f"{name}_{change}", (path, keyword), before, bound)


def pointer(path: Path) -> str:
    """Return a path as text: ``#/`` for the root."""
    parts: list[str] = []
    while path is not None:
        path, part = path
        parts.append(part)
    return "#/" + "/".join(reversed(parts))


def _followed(node: Node) -> Node:
    return node.target if isinstance(node, ReferenceNode) else node


def _shown(value: Any) -> Any:
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value
