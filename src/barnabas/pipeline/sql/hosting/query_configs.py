"""The configuration of a query's job, and the job's name."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.jobs.job_config import QUERY_CLASS, TARGET_TOPIC
from barnabas.pipeline.sql.functions.aggregate_properties import AGGREGATE_PROPERTIES
from barnabas.pipeline.sql.hosting.query_properties import (
    DEFINITIONS,
    PHASE,
    REGISTRY,
    START,
    STATEMENT,
    TOPICS,
)
from barnabas.pipeline.sql.stored.object_codec import Definitions, definitions_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.pipeline.sql.analysis.applied_statements import StartedQuery
    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog

DEFAULT_GROUP: Final = "barnabas-pipelines"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]")
_PASSED_ON: Final = (
    "errors.deadletterqueue.topic.name",
    "trigger.ms",
    "on.trim",
    *AGGREGATE_PROPERTIES,
)
"""The properties of a session that a query's job gets."""


def job_name(group_id: str, query: str) -> str:
    """Return the name of a query's job, which is that of its consumer group, too.

    Groups of runners on one cluster number their queries alike, so their names are added, except
    that of the default group.
    """
    prefix = "" if group_id == DEFAULT_GROUP else f"{group_id}-"
    return _NOT_IN_NAMES.sub("_", prefix + query)


def staging_topic(job: str) -> str:
    """Return the topic that a query writes while it rebuilds a table."""
    return f"{job}-staging"


def building(config: Mapping[str, str | None], job: str) -> dict[str, str | None]:
    """Return the configuration of a query that writes its staging topic."""
    return {**config, TARGET_TOPIC: staging_topic(job), PHASE: "building"}


def query_config(
    name: str,
    started: StartedQuery,
    catalog: Catalog,
    start: str,
    registry: str,
    properties: Mapping[str, str],
) -> dict[str, str | None]:
    """Return the configuration of the job of a query that starts."""
    query = started.query
    reads = dict.fromkeys(each.source.name for each in query.plan.relations)
    topics = dict.fromkeys(each.source.topic for each in query.plan.relations)
    stored = next(each for each in catalog.queries if each.name == started.name)
    definitions = Definitions.of(catalog, [*reads, query.sink.name])
    found: dict[str, str | None] = {
        "name": name,
        "connector.class": QUERY_CLASS,
        "tasks.max": "1",
        TOPICS: ",".join(topics),
        TARGET_TOPIC: query.sink.topic,
        STATEMENT: stored.text,
        DEFINITIONS: json.dumps(definitions_json(definitions), separators=(",", ":")),
        START: start,
    }
    if registry:
        found[REGISTRY] = registry
    return found | {each: properties[each] for each in _PASSED_ON if each in properties}
