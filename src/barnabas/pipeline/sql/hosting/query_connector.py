"""The connector of jobs that run a query of SQL: its properties, and what it makes of them.

A configuration has all that the query needs: the text, and the sources and types as they were when
it started. So a later change of the catalog changes no query that runs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from barnabas import __version__
from barnabas.pipeline.connect.unused_properties import DELIVERY, EXACTLY_ONCE_ONLY, SLICE
from barnabas.pipeline.definitions.config_def import (
    NO_DEFAULT,
    ConfigDef,
    ConfigKey,
    Importance,
    Width,
)
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError
from barnabas.pipeline.definitions.config_validators import OneOf, non_empty
from barnabas.pipeline.delivery.plan.job_plan import JobPlan, RunningJob
from barnabas.pipeline.delivery.plan.start_positions import offsets_of
from barnabas.pipeline.sql.hosting.query_properties import (
    DEFINITIONS,
    FIRST_OFFSETS,
    REGISTRY,
    START,
    STATEMENT,
    TOPICS,
)

_NO_BATCHES: Final = "it reads at most 100,000 records of a topic in a batch"
_GROUP: Final = "SQL"


def _key(name: str, default: Any, order: int, title: str, text: str, **more: Any) -> ConfigKey:
    return ConfigKey(
        name,
        ConfigType.STRING,
        default,
        Importance.HIGH,
        text,
        group=_GROUP,
        order_in_group=order,
        width=Width.LONG,
        display_name=title,
        **more,
    )


def _offsets(name: str, value: object) -> None:
    """Raise ConfigValueError for a text that is not JSON of offsets by topic and partition."""
    try:
        offsets_of(str(value) or "{}")
    except ValueError as error:
        reason = f'It is like {{"orders": {{"0": 17}}}}: {error}'
        raise ConfigValueError.of(name, value, reason) from None


DEFINITION: Final = ConfigDef(
    [
        _key(
            STATEMENT,
            NO_DEFAULT,
            1,
            "Statement",
            "CREATE STREAM or TABLE AS SELECT, or INSERT INTO .. SELECT.",
            validator=non_empty,
        ),
        _key(
            DEFINITIONS,
            NO_DEFAULT,
            2,
            "Definitions",
            "The sources and types of the statement, as JSON.",
            validator=non_empty,
        ),
        _key(
            START,
            "earliest",
            3,
            "Start",
            "The first position in a topic that the query has not read: earliest or latest.",
            validator=OneOf(("earliest", "latest")),
        ),
        _key(
            FIRST_OFFSETS,
            "",
            4,
            "First offsets",
            "The first offsets of a query that starts at the latest ones, as JSON by topic and "
            "partition; empty for the ends of the topics when the job starts.",
            validator=_offsets,
        ),
        _key(
            REGISTRY,
            "",
            5,
            "Schema registry",
            "The address of the registry of AVRO, PROTOBUF and JSON_SR.",
        ),
    ]
)


class QueryConnector:
    """Describes a query; the engine runs it in the session that jobs share."""

    version = __version__
    is_hidden: ClassVar[bool] = True
    """Lists of connectors leave it out, unless a request asks for it."""
    without_effect: ClassVar[Mapping[str, str]] = {
        DELIVERY: EXACTLY_ONCE_ONLY,
        SLICE: "it has batches; set trigger.ms",
        "batch.records.max": _NO_BATCHES,
        "records.per.second.max": _NO_BATCHES,
        "transforms": "the statement is the transformation",
    }

    def config(self) -> ConfigDef:
        """Return the definition of the connector's own properties."""
        return DEFINITION

    def task_configs(self, props: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        """Return one task. Raises ConfigValueError for a statement that cannot be planned."""
        del max_tasks
        from barnabas.pipeline.sql.hosting.planned_statement import planned_statement

        query = planned_statement(props)
        given = {each.strip() for each in props.get(TOPICS, "").split(",")}
        needed = {each.source.topic for each in query.plan.relations}
        if given != needed:
            reason = f"The statement reads the topics {', '.join(sorted(needed))}"
            raise ConfigValueError.of(TOPICS, props.get(TOPICS), reason)
        return [dict(props)]

    @staticmethod
    def start_job(
        session: Any, plan: JobPlan, work: Path, checkpoint_of: Callable[[str], str]
    ) -> RunningJob:
        """Start the query. Raises JobStartError."""
        from barnabas.pipeline.sql.hosting.hosted_query import start

        return start(session, plan, work, checkpoint_of)
