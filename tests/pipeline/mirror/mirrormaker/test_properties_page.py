"""docs/mirror-maker.md says of each property what happens with it."""

import re
from pathlib import Path

from barnabas.pipeline.mirror.mirrormaker.connector_properties import (
    CHECKPOINT_DEFINITION,
    DEFAULT_FILTERS,
    HEARTBEAT_DEFINITION,
    SOURCE_DEFINITION,
    WITHOUT_EFFECT,
)
from barnabas.pipeline.mirror.mirrormaker.maker_settings import unsupported

PAGE = Path(__file__).parents[4] / "docs" / "mirror-maker.md"


def rows() -> dict[str, str]:
    """Return what the table says, by property."""
    text = PAGE.read_text()
    section = text[text.index("## Properties") : text.index("## Taking over")]
    found: dict[str, str] = {}
    for line in re.findall(r"^\| (`.*?) \| (.*) \|$", section, re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", line[0]), line[1])
    return found


def test_each_property_has_a_row_that_is_true() -> None:
    listed = rows()
    for definition in (SOURCE_DEFINITION, CHECKPOINT_DEFINITION, HEARTBEAT_DEFINITION):
        for name in definition.keys:
            client = re.sub(r"^(ssl|sasl)\..*", r"\1.*", name)
            assert client in listed, name
            is_ignored = listed[client].startswith("ignored: ")
            assert is_ignored == (name in WITHOUT_EFFECT), name


def test_reasons_are_those_that_the_command_shows() -> None:
    for name, reason in WITHOUT_EFFECT.items():
        assert rows()[name].removeprefix("ignored: ") in reason


def test_rows_of_refused_values_are_true() -> None:
    refused = {name for name, text in rows().items() if "refused" in text}
    wrong = dict.fromkeys((*DEFAULT_FILTERS, "replication.policy.class"), "org.example.Own")
    off = dict.fromkeys(("enabled", "refresh.topics.enabled", "refresh.groups.enabled"), False)
    assert {name for name, _ in unsupported({**wrong, **off})} == refused - {"transforms"}
