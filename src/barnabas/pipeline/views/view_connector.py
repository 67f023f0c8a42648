"""The connector of jobs that keep a view: its properties, and what it makes of them."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from barnabas import __version__
from barnabas.pipeline.connect.unused_properties import DELIVERY, ON_TRIM, SLICE
from barnabas.pipeline.definitions.config_def import ConfigDef, ConfigKey, Importance, Width
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import InRange, OneOf
from barnabas.pipeline.views.view_keys import KeyForm, ViewKeys

WINDOWS: Final = "key.windows"
WINDOW_SIZE: Final = "window.size.ms"
RETENTION: Final = "window.retention.ms"

_FORMS: Final = {
    "none": KeyForm.PLAIN,
    "time": KeyForm.TIME_WINDOW,
    "session": KeyForm.SESSION,
}


def _key(
    name: str, kind: ConfigType, default: Any, order: int, text: str, **more: Any
) -> ConfigKey:
    return ConfigKey(
        name,
        kind,
        default,
        Importance.MEDIUM,
        text,
        group="View",
        order_in_group=order,
        width=Width.MEDIUM,
        **more,
    )


DEFINITION: Final = ConfigDef(
    [
        _key(
            WINDOWS,
            ConfigType.STRING,
            "none",
            1,
            "The windows of the table's keys: none, time (tumbling, hopping and sliding windows), "
            "or session.",
            validator=OneOf(tuple(_FORMS)),
            display_name="Windows of keys",
        ),
        _key(
            WINDOW_SIZE,
            ConfigType.LONG,
            0,
            2,
            "The length of time windows in ms; records hold only their start.",
            validator=InRange(0),
            display_name="Length of windows",
        ),
        _key(
            RETENTION,
            ConfigType.LONG,
            -1,
            3,
            "Windows that end before the newest record by more than this are removed from the view;"
            " -1 keeps all.",
            validator=InRange(-1),
            display_name="Retention of windows",
        ),
    ]
)


class ViewConnector:
    """Describes a view; the runner keeps it without Spark."""

    version = __version__
    without_effect: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (DELIVERY, ON_TRIM, SLICE, "trigger.ms", "batch.records.max", "records.per.second.max"),
        "it reads its topic from the beginning, without batches",
    )

    def config(self) -> ConfigDef:
        """Return the definition of the connector's own properties."""
        return DEFINITION

    def task_configs(self, props: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        """Return one task. Raises ConfigValueError for properties that do not fit together."""
        del max_tasks
        view_topic(props)
        view_keys(props)
        return [dict(props)]


def view_topic(props: Mapping[str, str]) -> str:
    """Return the topic of a view. Raises ConfigValueError unless it is one."""
    topics = [name for text in props.get("topics", "").split(",") if (name := text.strip())]
    if len(topics) != 1:
        given = props.get("topics") or props.get("topics.regex")
        raise ConfigValueError.of("topics", given, "A view has one topic")
    return topics[0]


def view_keys(props: Mapping[str, str]) -> ViewKeys:
    """Return the form of a view's keys. Raises ConfigValueError."""
    parsed = DEFINITION.parse(props)
    form, size = _FORMS[str(parsed[WINDOWS])], _number(parsed[WINDOW_SIZE])
    if form is KeyForm.TIME_WINDOW and size == 0:
        raise ConfigValueError.of(WINDOW_SIZE, size, f"{WINDOWS}=time needs the length of windows")
    return ViewKeys(form, size if form is KeyForm.TIME_WINDOW else 0)


def view_retention(props: Mapping[str, str]) -> int | None:
    """Return how long windows are kept in ms, None without limit."""
    retention = _number(DEFINITION.parse(props)[RETENTION])
    return None if retention < 0 else retention


def _number(value: ParsedValue) -> int:
    return value if isinstance(value, int) else 0
