"""Compare ``allOf``, ``anyOf`` and ``oneOf``, lists of types, and types beside an enum.

Branches have no names, so a branch of one side is matched with any branch of the other that it is
compatible with: each branch of the smaller side needs another partner.
"""

from collections.abc import Iterator
from itertools import chain

from barnabas.registry.formats.json_schema.json_comparison import Comparison, Path
from barnabas.registry.formats.json_schema.json_types import CombinedNode, Node
from barnabas.registry.formats.schema_format import Incompatibility


def compare_combined(
    c: Comparison, old: CombinedNode, new: CombinedNode, path: Path
) -> Iterator[Incompatibility]:
    """Yield the differences of two combinations."""
    if old.criterion != new.criterion and not _is_extended(old, new):
        yield c.difference("COMBINED_TYPE_CHANGED", path, old.criterion, new.criterion)
        return
    sizes = len(old.branches), len(new.branches)
    if sizes[1] < sizes[0] and "allOf" not in (old.criterion, new.criterion):
        yield c.difference("SUM_TYPE_NARROWED", path, *sizes)
    if sizes[1] > sizes[0] and new.criterion == "allOf":
        yield c.difference("PRODUCT_TYPE_EXTENDED", path, *sizes)
    if not _is_matched(c, old, new):
        yield c.difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path, *sizes)


def _is_extended(old: CombinedNode, new: CombinedNode) -> bool:
    """True when another criterion takes at least what the old one takes."""
    is_single = len(old.branches) == 1
    becomes_single = len(new.branches) == 1
    if new.criterion == "anyOf" or (is_single and (becomes_single or new.criterion == "oneOf")):
        return True
    return old.criterion == "allOf" and becomes_single


def _is_matched(c: Comparison, old: CombinedNode, new: CombinedNode) -> bool:
    """True when every branch of the smaller side has a compatible partner on the other."""
    smaller, larger = len(old.branches), len(new.branches)
    swapped = smaller > larger
    if swapped:
        smaller, larger = larger, smaller

    def fits(one: int, other: int) -> bool:
        if swapped:
            one, other = other, one
        return c.is_compatible(old.branches[one], new.branches[other])

    partner_of: dict[int, int] = {}

    def find(one: int, tried: set[int]) -> bool:
        # The branch at the same place first: mostly it is the partner.
        for other in chain((one,), range(one), range(one + 1, larger)):
            if other in tried or not fits(one, other):
                continue
            tried.add(other)
            if other not in partner_of or find(partner_of[other], tried):
                partner_of[other] = one
                return True
        return False

    return all(find(one, set()) for one in range(smaller))


def compare_one_sided(c: Comparison, old: Node, new: Node, path: Path) -> Iterator[Incompatibility]:
    """Yield the differences when only one side is a combination."""
    if isinstance(old, CombinedNode):
        if len(old.branches) == 1:
            yield from c.differences(old.branches[0], new, path)
            return
        if old.criterion == "allOf" and any(c.is_compatible(b, new) for b in old.branches):
            return
        yield c.difference("TYPE_CHANGED", path, old.criterion, None)
    elif isinstance(new, CombinedNode):
        if len(new.branches) == 1:
            yield from c.differences(old, new.branches[0], path)
            return
        if new.criterion != "allOf" and any(c.is_compatible(old, b) for b in new.branches):
            return
        yield c.difference("TYPE_CHANGED", path, None, new.criterion)
