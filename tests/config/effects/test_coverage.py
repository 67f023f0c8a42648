"""Every property that counts as effective has an observation, and the other way around."""

import importlib
from pathlib import Path

import pytest

from barnabas.config import BROKER_PROPERTIES, TOPIC_PROPERTIES
from barnabas.config.properties import DYNAMIC_ONLY_PROPERTIES
from barnabas.config.properties.group_properties import GROUP_PROPERTIES
from barnabas.config.schema import Dynamic
from tests.config.effects.observed import OBSERVED, OBSERVED_DYNAMICALLY

for _file in sorted(Path(__file__).parent.glob("test_*_effects.py")):
    importlib.import_module(f"tests.config.effects.{_file.stem}")

# Broker synonyms of topic properties reach the logs of running topics in one way, which is
# observed on one of them.
THE_WAY_OF_ALL = "message.max.bytes"


def test_property_is_effective_when_it_is_observed() -> None:
    """When it fails: write an observation, or drop `has_effect` from the property's row."""
    tables = (BROKER_PROPERTIES, DYNAMIC_ONLY_PROPERTIES, TOPIC_PROPERTIES, GROUP_PROPERTIES)
    effective = {row.name for table in tables for row in table.values() if row.has_effect}
    assert effective == set(OBSERVED)


@pytest.mark.parametrize("table", [TOPIC_PROPERTIES, BROKER_PROPERTIES, GROUP_PROPERTIES])
def test_same_name_is_effective_in_all_tables(table: dict[str, object]) -> None:
    """A name in two tables (compression.type, say) is one property with one effect."""
    for name, row in TOPIC_PROPERTIES.items():
        if name in BROKER_PROPERTIES:
            assert row.has_effect == BROKER_PROPERTIES[name].has_effect, name


def test_dynamic_property_is_changed_on_a_running_node_or_needs_a_restart() -> None:
    """When it fails: observe a change on a running node, or mark the row `needs_restart`."""
    synonyms = {synonym for row in TOPIC_PROPERTIES.values() for synonym, _ in row.synonyms}
    assert THE_WAY_OF_ALL in synonyms & set(OBSERVED_DYNAMICALLY)
    missing = {
        row.name
        for row in BROKER_PROPERTIES.values()
        if row.has_effect
        and row.dynamic is not Dynamic.READ_ONLY
        and not row.needs_restart
        and row.name not in OBSERVED_DYNAMICALLY
        and row.name not in synonyms
    }
    assert missing == set()
