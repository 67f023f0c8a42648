"""docs/schema-compatibility.md: every example has the stated verdict, every rule has an example."""

import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.registry.formats import CompatibilityPolicy, ParsedSchema, format_of
from tests.registry.formats.golden import pairs, reasons

PAGE = (Path(__file__).parents[3] / "docs" / "schema-compatibility.md").read_text()
TYPES = {
    "avro": "AVRO",
    "json-schema": "JSON",
    "json-schema-lenient": "JSON",
    "protobuf": "PROTOBUF",
}
EXAMPLES = re.findall(
    r"^```(\S+)\nold: (.*)\nnew: (.*)\nbackward: (.*)\nforward: (.*)\n```$", PAGE, re.MULTILINE
)


def verdict(reader: ParsedSchema, writer: ParsedSchema, policy: CompatibilityPolicy) -> str:
    found = reader.check_reads(writer, policy)
    return ", ".join(f"{reason.rule} {reason.path}" for reason in found) or "compatible"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: "-".join(example)[:80])
def test_example_has_the_stated_verdicts(example: tuple[str, ...]) -> None:
    language, old_text, new_text, backward, forward = example
    lenient = language.endswith("lenient")
    policy = CompatibilityPolicy.LENIENT if lenient else CompatibilityPolicy.STRICT
    schemas = format_of(TYPES[language])
    head = 'syntax = "proto3"; ' if language == "protobuf" else ""
    old, new = (schemas.parse(head + text, is_new=True) for text in (old_text, new_text))
    assert verdict(new, old, policy) == backward
    assert verdict(old, new, policy) == forward


def test_every_block_of_the_page_is_an_example() -> None:
    assert len(EXAMPLES) == PAGE.count("```") // 2 > 60


@pytest.mark.parametrize("schema_type", ["AVRO", "JSON", "PROTOBUF"])
def test_every_recorded_rule_is_explained(schema_type: str) -> None:
    def rules(answer: Any) -> set[str]:
        return {rule for rule, _ in reasons(answer)} if answer else set()

    recorded = set().union(
        *(rules(p[direction]) for p in pairs(schema_type) for direction in ("backward", "forward"))
    )
    suffixes = ("_DECREASED", "_INCREASED", "_ADDED")
    unexplained = {rule for rule in recorded if rule not in PAGE and not rule.endswith(suffixes)}
    assert (len(recorded) > 5, unexplained) == (True, set())
