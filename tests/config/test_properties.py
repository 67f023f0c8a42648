"""The table against what Kafka 4.3.0's own classes declare (tests/data/config-4.3.0.json)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.config import BROKER_PROPERTIES, TOPIC_PROPERTIES, Property
from barnabas.config.__main__ import page
from barnabas.config.properties.group_properties import GROUP_PROPERTIES

ROOT = Path(__file__).parents[2]
KAFKA: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (ROOT / "tests/data/config-4.3.0.json").read_text()
)
TABLES = {"broker": BROKER_PROPERTIES, "topic": TOPIC_PROPERTIES, "group": GROUP_PROPERTIES}
ROWS = [
    pytest.param(TABLES[kind].get(name), facts, id=f"{kind}:{name}")
    for kind in TABLES
    for name, facts in KAFKA[kind].items()
]


# Kafka's authorizer reads these from the file; its table of properties does not have them.
OF_THE_AUTHORIZER = {"super.users", "allow.everyone.if.no.acl.found"}


@pytest.mark.parametrize("kind", TABLES)
def test_table_has_kafkas_properties_and_barnabas_own(kind: str) -> None:
    ours = {name for name in TABLES[kind] if not name.startswith("barnabas.")}
    ours -= OF_THE_AUTHORIZER
    assert ours == set(KAFKA[kind])


def same_choices(ours: str, kafkas: str) -> bool:
    """Kafka prints some choices in the order of a hash set."""
    return sorted(ours.strip("[]").split(", ")) == sorted(kafkas.strip("[]").split(", "))


@pytest.mark.parametrize(("row", "facts"), ROWS)
def test_row_equals_kafkas_declaration(row: Property | None, facts: dict[str, Any]) -> None:
    assert row is not None
    assert {
        "type": row.type.name,
        "default": row.default_text,
        "required": row.required,
        "importance": row.importance.value,
        "internal": row.internal,
    } == {key: facts[key] for key in ("type", "default", "required", "importance", "internal")}
    assert row.dynamic.value == facts.get("dynamic", "read-only")
    allowed = str(row.validator or "")
    assert allowed == facts["allowed"] or same_choices(allowed, facts["allowed"])


def test_topic_properties_have_kafkas_broker_synonyms() -> None:
    ours = {
        name: [[synonym, str(factor)] for synonym, factor in row.synonyms]
        for name, row in TOPIC_PROPERTIES.items()
        if row.synonyms
    }
    assert ours == KAFKA["topic_synonyms"]


def test_group_properties_have_kafkas_broker_synonyms() -> None:
    ours = {n: row.synonyms[0][0] if row.synonyms else None for n, row in GROUP_PROPERTIES.items()}
    assert ours == KAFKA["group_synonyms"]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_property_has_a_sentence_of_documentation(table: dict[str, Property]) -> None:
    poor = [row.name for row in table.values() if len(row.doc) < 20 or not row.doc.endswith(".")]
    assert poor == []


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_default_passes_its_validator(table: dict[str, Property]) -> None:
    for row in table.values():
        if not row.required and row.default is not None:
            row.check(row.default)
            assert row.parse(row.default_text or "") == row.default


def test_configuration_page_is_current() -> None:
    """When it fails: python -m barnabas.config > docs/configuration.md."""
    assert (ROOT / "docs/configuration.md").read_text() == "\n".join(page()) + "\n"


def test_import_of_the_configuration_loads_no_heavy_module() -> None:
    check = (
        "import sys; before = set(sys.modules); import barnabas.config, enum, pathlib, typing;"
        "new = {n.partition('.')[0] for n in set(sys.modules) - before};"
        "print(sorted(new & {'trio', 'attrs', 'attr', 'click', 'json', 'dataclasses', 'inspect',"
        " 'socket', 'decimal', 're2', 'difflib', 'asyncio', 'subprocess'}))"
    )
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
