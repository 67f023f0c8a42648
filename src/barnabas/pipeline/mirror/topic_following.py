"""Steps that make the target's topics follow the source's: a decision, without input or output."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from barnabas.pipeline.mirror.name_patterns import matches_any

MIRROR_SOURCE: Final = "barnabas.mirror.source"
"""The property that makes a topic of barnabas a mirror; its value is the flow."""
MIRROR_PROMOTED: Final = "barnabas.mirror.promoted"
"""The property that names the flow that a topic was a mirror of."""
_OF_MIRRORS: Final = "barnabas.mirror."


@attrs.frozen
class TopicView:
    """A topic with the properties that were set for it."""

    name: str
    partitions: int
    configs: Mapping[str, str] = attrs.field(factory=dict[str, str])
    has_records: bool = False
    """True when records were written to it, present or deleted."""


@attrs.frozen
class CreateStep:
    """Create the topic."""

    topic: str
    partitions: int
    configs: Mapping[str, str]


@attrs.frozen
class GrowStep:
    """Add partitions to the topic, up to `partitions` in all."""

    topic: str
    partitions: int


@attrs.frozen
class AlterStep:
    """Change properties; None removes one."""

    topic: str
    changes: Mapping[str, str | None]


Step: TypeAlias = CreateStep | GrowStep | AlterStep


class FlowRefusedError(Exception):
    """A flow cannot copy a topic; the message says what a user can do."""


@attrs.frozen
class FollowingRules:
    """The part of a flow's settings that topics depend on."""

    flow: str
    is_identical: bool
    copies_configs: bool
    configs_exclude: Sequence[str]


def selected(
    names: Collection[str], pattern: str | None, existing: Mapping[str, bool]
) -> list[str]:
    """Return the topics of a flow; a pattern selects no internal topics.

    `existing` says for each topic of the source whether it is internal. Raises FlowRefusedError
    when a named topic does not exist.
    """
    if pattern is not None:
        return sorted(
            name
            for name, is_internal in existing.items()
            if not is_internal and is_match(pattern, name)
        )
    missing = [name for name in names if name not in existing]
    if missing:
        raise FlowRefusedError(
            f"topic {missing[0]} does not exist at the source: create it, or leave it out of topics"
        )
    return sorted(names)


def is_match(pattern: str, name: str) -> bool:
    """True when the pattern of a flow selects a topic."""
    return not name.startswith("__") and re.fullmatch(pattern, name) is not None


def steps(
    source: TopicView, target: TopicView | None, rules: FollowingRules, *, is_known: bool
) -> list[Step]:
    """Return what makes the target's topic follow the source's, in order.

    `is_known` is True when the flow has positions in the topic. Raises FlowRefusedError.
    """
    configs = _copied_configs(source.configs, rules)
    if rules.is_identical:
        configs[MIRROR_SOURCE] = rules.flow
    if target is None:
        return [CreateStep(source.name, source.partitions, configs)]
    _check_mirror(target, rules, is_known=is_known)
    found: list[Step] = []
    if target.partitions < source.partitions:
        if not is_known:
            raise FlowRefusedError(
                f"topic {target.name} has {target.partitions} partitions at the target and "
                f"{source.partitions} at the source: add partitions to it, or delete it and let "
                "the flow create it"
            )
        found.append(GrowStep(source.name, source.partitions))
    changes = _changes(configs, target.configs, rules)
    if changes:
        found.append(AlterStep(source.name, changes))
    return found


def _check_mirror(target: TopicView, rules: FollowingRules, *, is_known: bool) -> None:
    """Raise FlowRefusedError when the target's topic must not be written by the flow."""
    other = target.configs.get(MIRROR_SOURCE)
    if other is not None and (other != rules.flow or not rules.is_identical):
        raise FlowRefusedError(
            f"topic {target.name} is a mirror of flow {other} at the target: promote it, or leave "
            "it out of this flow"
        )
    promoted = target.configs.get(MIRROR_PROMOTED, "")
    if other is None and rules.is_identical and promoted.partition(":")[0] == rules.flow:
        raise FlowRefusedError(
            f"topic {target.name} was promoted at the target, and flow {rules.flow} has "
            "ended in it: leave it out of the flow"
        )
    if other is None and rules.is_identical and not is_known and target.has_records:
        raise FlowRefusedError(
            f"topic {target.name} has records at the target and is not a mirror, so it cannot have "
            "the offsets of the source: delete it and let the flow create it, or set "
            "offsets=assigned with an empty topic"
        )
    if other is None and rules.is_identical and is_known:
        raise FlowRefusedError(
            f"topic {target.name} is not a mirror any longer: its property {MIRROR_SOURCE} was "
            "removed; delete the topic and let the flow create it, or leave it out of the flow"
        )


def _copied_configs(configs: Mapping[str, str], rules: FollowingRules) -> dict[str, str]:
    if not rules.copies_configs:
        return {}
    return {name: value for name, value in configs.items() if not _is_excluded(name, rules)}


def _changes(
    wanted: Mapping[str, str], present: Mapping[str, str], rules: FollowingRules
) -> dict[str, str | None]:
    changes: dict[str, str | None] = {
        name: value for name, value in wanted.items() if present.get(name) != value
    }
    if rules.copies_configs:
        unset = present.keys() - wanted.keys()
        changes |= {name: None for name in sorted(unset) if not _is_excluded(name, rules)}
    return changes


def _is_excluded(name: str, rules: FollowingRules) -> bool:
    return name.startswith(_OF_MIRRORS) or matches_any(rules.configs_exclude, name)
