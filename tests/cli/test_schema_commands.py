"""`barnabas schema`, and values with schemas in `produce` and `consume`."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Barnabas
from tests.registry.live_registry import live_registry

pytest.importorskip("starlette")
pytest.importorskip("hypercorn")
pytest.importorskip("fastavro")


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with live_registry(bootstrap) as url:
        yield url


@pytest.fixture(autouse=True)
def _registry_variable(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_REGISTRY", registry)


def record(*fields: tuple[str, object]) -> str:
    """Return a record whose fields have the type int; a default of None is left out."""
    listed = [
        {"name": name, "type": "int"} | ({} if default is None else {"default": default})
        for name, default in fields
    ]
    return json.dumps({"type": "record", "name": "R", "fields": listed})


@pytest.fixture
def first(tmp_path: Path) -> Path:
    path = tmp_path / "first.avsc"
    path.write_text(record(("a", None)))
    return path


@pytest.fixture
def second(tmp_path: Path) -> Path:
    path = tmp_path / "second.avsc"
    path.write_text(record(("a", None), ("b", 3)))
    return path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.avsc"
    path.write_text(record(("a", None), ("c", None)))
    return path


def test_schema_is_registered_shown_and_compared(
    barnabas: Barnabas, first: Path, second: Path
) -> None:
    assert barnabas("schema", "register", "s", str(first)).code == 0
    assert barnabas("schema", "register", "s", str(second)).out.startswith("s version 2 id ")
    assert json.loads(barnabas("schema", "get", "s", "1").out) == json.loads(first.read_text())
    listed = barnabas("schema", "list", "--prefix", "s", "--json").data
    assert [(each["subject"], each["version"]) for each in listed] == [("s", 1), ("s", 2)]
    diff = barnabas("schema", "diff", "s", "1", "2")
    assert diff.code == 1
    assert '+      "name": "b",' in diff.lines


def test_incompatible_schema_is_refused_with_rule_and_path(
    barnabas: Barnabas, first: Path, broken: Path
) -> None:
    barnabas("schema", "register", "inc", str(first))
    outcome = barnabas("schema", "check", "inc", str(broken), "--json")
    assert outcome.code == 1
    assert outcome.data["details"][0]["rule"] == "READER_FIELD_MISSING_DEFAULT_VALUE"
    assert outcome.data["details"][0]["path"] == "/fields/1"
    assert "409" in barnabas("schema", "register", "inc", str(broken)).err
    assert barnabas("schema", "register", "inc", str(broken), "--dry-run").code == 1


def test_import_from_a_registry_that_does_not_answer_names_its_option(barnabas: Barnabas) -> None:
    done = barnabas("schema", "import", "--from", "http://127.0.0.1:9")
    assert (done.code, done.err.count("--registry")) == (3, 0)
    assert done.err.endswith("Connection refused; name another with --from\n")


def test_export_is_imported_with_ids_versions_and_settings(
    barnabas: Barnabas, first: Path, second: Path, tmp_path: Path
) -> None:
    barnabas("schema", "register", "move", str(first))
    barnabas("schema", "register", "move", str(second))
    barnabas("schema", "config", "move", "--set", "compatibility=FULL")
    barnabas("schema", "delete", "move", "--version", "1", "--yes")
    before = barnabas("schema", "list", "--prefix", "move", "--deleted", "--json").data
    file = tmp_path / "export.jsonl"
    assert barnabas("schema", "export", str(file), "--prefix", "move").code == 0
    assert barnabas("schema", "delete", "move", "--permanent", "--yes").code == 0
    assert barnabas("schema", "list", "--prefix", "move", "--deleted", "--json").data == []
    assert barnabas("schema", "import", str(file)).code == 0
    after = barnabas("schema", "list", "--prefix", "move", "--deleted", "--json").data
    assert [{**each, "ts": 0} for each in after] == [{**each, "ts": 0} for each in before]
    assert barnabas("schema", "config", "move").data == {
        "compatibilityLevel": "FULL",
        "mode": "READWRITE",
    }


def test_export_has_the_configuration_of_contexts(
    barnabas: Barnabas, first: Path, tmp_path: Path
) -> None:
    barnabas("schema", "register", ":.ctx:s", str(first))
    barnabas("schema", "config", ":.ctx:", "--set", "compatibility=NONE")
    file = tmp_path / "export.jsonl"
    assert barnabas("schema", "export", str(file)).code == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    wanted = {"kind": "config", "subject": ":.ctx:", "compatibilityLevel": "NONE"}
    assert wanted in lines


def test_export_has_the_settings_of_subjects_without_versions(
    barnabas: Barnabas, tmp_path: Path
) -> None:
    barnabas("schema", "config", "planned", "--set", "compatibility=FULL", "--mode", "READONLY")
    barnabas("schema", "config", ":.later:", "--set", "compatibility=NONE")
    file = tmp_path / "export.jsonl"
    assert barnabas("schema", "export", str(file)).code == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {"kind": "config", "subject": "planned", "compatibilityLevel": "FULL"} in lines
    assert {"kind": "mode", "subject": "planned", "mode": "READONLY"} in lines
    assert {"kind": "config", "subject": ":.later:", "compatibilityLevel": "NONE"} in lines
    assert barnabas("schema", "export", str(file), "--prefix", "plan").code == 0
    assert len(file.read_text().splitlines()) == 2
    barnabas("schema", "config", "planned", "--mode", "READWRITE")


def test_config_of_an_unknown_property_is_refused(barnabas: Barnabas) -> None:
    refused = barnabas("schema", "config", "s", "--set", "compatibilty=FULL")
    assert refused.code == 2
    assert "Unknown property 'compatibilty'" in refused.err


def test_schema_larger_than_the_topic_takes_is_refused(
    barnabas: Barnabas, bootstrap: str, first: Path, tmp_path: Path
) -> None:
    limits = ("--set", "cleanup.policy=compact", "--set", "max.message.bytes=2000")
    assert barnabas("topic", "create", "small", *limits).code == 0
    large = tmp_path / "large.avsc"
    large.write_text(json.dumps({"type": "enum", "name": "E", "doc": "x" * 3000, "symbols": []}))
    with live_registry(bootstrap, "small") as url:
        refused = barnabas("schema", "register", "s", str(large), "--registry", url)
        assert refused.code == 1
        assert "42209" in refused.err
        assert "max.message.bytes" in refused.err
        assert barnabas("schema", "register", "s", str(first), "--registry", url).code == 0


def test_values_are_json_here_and_avro_in_kafka(
    barnabas: Barnabas, first: Path, second: Path, broken: Path
) -> None:
    barnabas("topic", "create", "values")
    schema = ("--value-format", "avro", "--value-schema")
    lines = b'{"a":1}\n{"a":2}\n'
    assert barnabas("produce", "values", *schema, str(first), stdin=lines).code == 0
    barnabas("schema", "register", "values-value", str(second))
    newest = barnabas("produce", "values", "--value-format", "avro", stdin=b'{"a":3,"b":4}\n')
    assert newest.code == 0
    read = barnabas("consume", "values", "-b", "-e", "--value-format", "avro")
    assert read.lines == ['{"a":1}', '{"a":2}', '{"a":3,"b":4}']
    refused = barnabas("produce", "values", "--value-format", "avro", stdin=b'{"b":4}\n')
    assert refused.code == 1
    assert "line 1" in refused.err
    against = ("--against-topic", "values", "--json")
    assert barnabas("schema", "check", "values-value", str(second), *against).code == 0
    assert barnabas("schema", "check", "values-value", str(broken), *against).code == 1


PROTOBUF = """syntax = "proto3";
package p;
import "google/protobuf/timestamp.proto";
message A { string s = 1; }
message B {
  message C { int32 n = 1; google.protobuf.Timestamp t = 2; }
  C c = 1;
}
"""


def test_values_are_json_here_and_protobuf_in_kafka(barnabas: Barnabas, tmp_path: Path) -> None:
    file = tmp_path / "schema.proto"
    file.write_text(PROTOBUF)
    barnabas("topic", "create", "proto")
    options = ("--value-format", "protobuf", "--value-schema", str(file))
    first = barnabas("produce", "proto", *options, stdin=b'{"s":"x"}\n')
    assert first.code == 0
    nested = ("--message", "p.B.C")
    line = b'{"n":5,"t":"2026-01-01T00:00:00Z"}\n'
    assert barnabas("produce", "proto", *options, *nested, stdin=line).code == 0
    read = barnabas("consume", "proto", "-b", "-e", "--value-format", "protobuf")
    assert read.lines == ['{"s":"x"}', '{"n":5,"t":"2026-01-01T00:00:00Z"}']
    against = ("--against-topic", "proto", "--json")
    assert barnabas("schema", "check", "proto-value", str(file), *against).code == 0


def test_consume_shows_values_without_schema_as_they_are(barnabas: Barnabas, first: Path) -> None:
    barnabas("topic", "create", "mixed")
    avro = ("--value-format", "avro")
    schema = (*avro, "--value-schema", str(first))
    raw = ("--format", "json")

    def base64_of(data: bytes) -> bytes:
        return b'{"value_base64":"%s"}\n' % base64.b64encode(data)

    assert barnabas("produce", "mixed", *schema, stdin=b'{"a":1}\n').code == 0
    foreign = [b"plain text", b"", b"\x00\x00\x00\x27\x10x", b"\x00\x00\x00\x27\x10y", b"\xff\xfe"]
    lines = b"".join(base64_of(each) for each in foreign)
    assert barnabas("produce", "mixed", *raw, stdin=lines).code == 0
    assert barnabas("produce", "mixed", *schema, stdin=b'{"a":2}\n').code == 0
    read = barnabas("consume", "mixed", "-b", "-e", *avro, "--json")
    assert read.code == 0
    values = [json.loads(line) for line in read.lines]
    assert [values[0]["value"], values[-1]["value"]] == ['{"a":1}', '{"a":2}']
    shown = [
        base64.b64decode(each["value_base64"]) if "value_base64" in each else each["value"].encode()
        for each in values[1:-1]
    ]
    assert shown == foreign
    notes = read.err.splitlines()
    assert "mixed-0 offset 1" in notes[0]
    assert sum("10000" in note for note in notes) == 1
    assert notes[-1] == "barnabas: 5 values were not decoded and are shown as they are"


def test_consume_without_registry_stops(barnabas: Barnabas, first: Path) -> None:
    barnabas("topic", "create", "lonely")
    schema = ("--value-format", "avro", "--value-schema", str(first))
    assert barnabas("produce", "lonely", *schema, stdin=b'{"a":1}\n').code == 0
    options = ("-b", "-e", "--value-format", "avro", "--registry", "http://127.0.0.1:1")
    assert barnabas("consume", "lonely", *options).code == 3


def test_values_are_checked_against_a_json_schema(barnabas: Barnabas, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}')
    barnabas("topic", "create", "jsons")
    options = ("--value-format", "json-schema", "--value-schema", str(file))
    assert barnabas("produce", "jsons", *options, stdin=b'{"a":1}\n').code == 0
    assert barnabas("produce", "jsons", *options, stdin=b'{"a":"x"}\n').code == 1
    read = barnabas("consume", "jsons", "-b", "-e", "--value-format", "json-schema")
    assert read.lines == ['{"a":1}']


def test_registry_that_does_not_answer_is_one_line(barnabas: Barnabas) -> None:
    outcome = barnabas("schema", "list", "--registry", "http://127.0.0.1:1")
    assert outcome.code == 3
    assert outcome.err.count("\n") == 1


def test_registry_that_does_not_run_is_named_with_what_to_do(barnabas: Barnabas) -> None:
    outcome = barnabas("schema", "list", "--registry", "http://127.0.0.1:9")
    assert outcome.code == 3
    assert outcome.err == (
        "barnabas: registry http://127.0.0.1:9: Connection refused; start one with barnabas "
        "registry, or name another with --registry\n"
    )
