"""From the properties file of connect-mirror-maker.sh to configurations of connectors.

Each enabled flow `A->B` gets the three connectors. As in MirrorMaker 2, heartbeats are also written
for flows that are not enabled, unless they are switched off: the heartbeats that A's topic gets for
`B->A` show at B whether `A->B` works.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from barnabas.pipeline.mirror.mirrormaker.connector_properties import (
    CHECKPOINT_DEFINITION,
    HEARTBEAT_DEFINITION,
    MIRROR,
    SOURCE_DEFINITION,
    TOPIC_FILTER_DEFINITION,
    WITHOUT_EFFECT,
)
from barnabas.pipeline.mirror.mirrormaker.maker_settings import SECURITY

CLUSTERS: Final = "clusters"
ENABLED: Final = "enabled"
_EMITS: Final = "emit.heartbeats.enabled"
_ARROW: Final = "->"
_CLIENTS: Final = ("consumer.", "producer.", "admin.", "source.", "target.")
_DEFINITIONS: Final = {
    "Source": (SOURCE_DEFINITION,),
    "Checkpoint": (CHECKPOINT_DEFINITION, TOPIC_FILTER_DEFINITION),
    "Heartbeat": (HEARTBEAT_DEFINITION,),
}
_OWN: Final = {
    kind: frozenset(name for each in definitions for name in each.keys)
    for kind, definitions in _DEFINITIONS.items()
}
_KNOWN: Final = frozenset[str]().union(*_OWN.values())
_OF_WORKERS: Final = (
    "offset.storage.",
    "config.storage.",
    "status.storage.",
    "offset.flush.",
    "task.",
    "rest.",
    "listeners",
    "admin.listeners",
    "key.converter",
    "value.converter",
    "header.converter",
    "plugin.",
    "metrics.",
    "rebalance.",
    "scheduled.rebalance.",
    "heartbeat.interval.ms",
    "session.timeout.ms",
    "worker.",
    "group.id",
    "dedicated.mode.enable.internal.rest",
    "topic.creation.",
    "connector.client.config.override.policy",
)
WORKER: Final = "a worker of Connect has it, and there is none"
EXACTLY_ONCE: Final = "flows deliver exactly once"
TASKS: Final = "Spark divides the partitions among its tasks"
UNKNOWN: Final = "MirrorMaker 2 4.3.0 does not have it"
_IGNORED: Final = {
    **WITHOUT_EFFECT,
    "tasks.max": TASKS,
    "exactly.once.source.support": EXACTLY_ONCE,
}


class MakerFileError(ValueError):
    """A file of properties that no flow can be made of; the message says why."""


@attrs.frozen
class MakerPlan:
    """The connectors of a file, and the properties that have no effect."""

    connectors: tuple[Mapping[str, str], ...] = attrs.field(repr=False)
    flows: tuple[str, ...]
    """The enabled flows, such as `A->B`."""
    ignored: Mapping[str, str]
    """Properties without effect, each with the reason."""


def maker_plan(properties: Mapping[str, str], targets: tuple[str, ...] = ()) -> MakerPlan:
    """Return what a file asks for; with `targets`, only flows to these clusters.

    Raises MakerFileError.
    """
    clusters = [each.strip() for each in properties.get(CLUSTERS, "").split(",") if each.strip()]
    _check(properties, clusters, targets)
    connectors: list[Mapping[str, str]] = []
    flows: list[str] = []
    for source in clusters:
        for target in clusters:
            if source == target or (targets and target not in targets):
                continue
            own = _of_flow(properties, source, target, clusters)
            is_enabled = own.pop(ENABLED, "false").lower() == "true"
            if is_enabled:
                flows.append(f"{source}{_ARROW}{target}")
                connectors += [_connector(kind, own, source, target) for kind in _DEFINITIONS]
            elif own.get(_EMITS, "true").lower() == "true":
                connectors.append(_connector("Heartbeat", own, source, target))
    if not flows:
        raise MakerFileError(
            "no flow is enabled: set SOURCE->TARGET.enabled=true for two of the clusters "
            + ", ".join(clusters)
        )
    return MakerPlan(tuple(connectors), tuple(flows), dict(_ignored(properties, clusters)))


def _check(properties: Mapping[str, str], clusters: list[str], targets: tuple[str, ...]) -> None:
    if len(clusters) < 2:
        raise MakerFileError("clusters must name at least two clusters: clusters = A, B")
    for cluster in clusters:
        if not properties.get(f"{cluster}.bootstrap.servers"):
            raise MakerFileError(f"{cluster}.bootstrap.servers is missing: set it to HOST:PORT")
    for target in targets:
        if target not in clusters:
            raise MakerFileError(f"cluster {target} is not one of {', '.join(clusters)}")


def _of_flow(
    properties: Mapping[str, str], source: str, target: str, clusters: list[str]
) -> dict[str, str]:
    """Return the properties of one flow; those with its prefix replace those of all flows."""
    prefix = f"{source}{_ARROW}{target}."
    found = {
        name: value
        for name, value in properties.items()
        if _ARROW not in name and not _is_of_cluster(name, clusters) and name != CLUSTERS
    }
    for side, cluster in (("source", source), ("target", target)):
        for name, value in properties.items():
            if name.startswith(f"{cluster}."):
                found[f"{side}.cluster.{name.removeprefix(f'{cluster}.')}"] = value
    return found | {
        name.removeprefix(prefix): value
        for name, value in properties.items()
        if name.startswith(prefix)
    }


def _connector(kind: str, own: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    """Return the configuration of one connector."""
    found = {
        name: value
        for name, value in own.items()
        if name in _OWN[kind] or name.startswith((*_CLIENTS, *SECURITY))
    }
    found |= {
        "name": f"{source}-{target}.Mirror{kind}Connector",
        "connector.class": f"{MIRROR}.Mirror{kind}Connector",
        "source.cluster.alias": source,
        "target.cluster.alias": target,
    }
    found |= _clients(found)
    if kind == "Source":
        found["offsets.storage.topic"] = f"mm2-offsets.{source}.internal"
    return found


def _clients(found: dict[str, str]) -> dict[str, str]:
    """Move the properties of one cluster's clients, `A.consumer.NAME`, to their prefixes here."""
    moved: dict[str, str] = {}
    for side in ("source", "target"):
        for client in ("consumer", "producer", "admin"):
            prefix = f"{side}.cluster.{client}."
            for name in [each for each in found if each.startswith(prefix)]:
                moved[f"{side}.{client}.{name.removeprefix(prefix)}"] = found.pop(name)
    return moved


def _ignored(properties: Mapping[str, str], clusters: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the properties without effect, each with the reason."""
    for name in sorted(properties):
        own = name.partition(".")[2] if _ARROW in name else name
        if _ARROW in name and not _is_of_known_flow(name, clusters):
            yield name, f"it is of clusters other than {', '.join(clusters)}"
        elif own in _IGNORED:
            yield name, _IGNORED[own]
        elif not _is_used(own, clusters):
            yield name, WORKER if own.startswith(_OF_WORKERS) else UNKNOWN


def _is_used(name: str, clusters: list[str]) -> bool:
    """True for a property that has an effect, without the prefix of a flow."""
    is_named = name in _KNOWN or name in (CLUSTERS, ENABLED)
    is_of_client = name.startswith((*_CLIENTS, *SECURITY)) and not name.startswith(_OF_WORKERS)
    return is_named or is_of_client or _is_of_cluster(name, clusters)


def _is_of_cluster(name: str, clusters: list[str]) -> bool:
    return any(name.startswith(f"{cluster}.") for cluster in clusters)


def _is_of_known_flow(name: str, clusters: list[str]) -> bool:
    return any(
        name.startswith(f"{source}{_ARROW}{target}.")
        for source in clusters
        for target in clusters
        if source != target
    )
