"""`barnabas inspect` on hex, files and captures, and live in front of a node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.cli.conftest import Barnabas
from tests.inspect.captures import Sent, opening, pcap

HEX = "0000000e001200000000000100046d6f636b"
FRAME = b"".join(encode_request(2, "me", MetadataRequest(topics=[]), 12))


@pytest.fixture
def bootstrap() -> str:
    """Nothing here but the last test needs a server."""
    return "127.0.0.1:1"


@pytest.mark.parametrize("source", [[HEX], ["--hex", f"0x{HEX}"], ["-"]])
def test_hex_is_shown_with_places(barnabas: Barnabas, source: list[str]) -> None:
    outcome = barnabas("inspect", *source, stdin=HEX.encode())
    assert outcome.code == 0
    assert outcome.lines[0] == "> ApiVersions v0 request  correlation 1  client mock  18 bytes"
    assert '     12-18     client_id  "mock"  nullable string' in outcome.lines


def test_json_has_one_object_for_each_frame_of_a_file(barnabas: Barnabas, tmp_path: Path) -> None:
    file = tmp_path / "frames"
    file.write_bytes(FRAME * 2)
    first, second = map(json.loads, barnabas("inspect", str(file), "--json").lines)
    assert first == second
    assert (first["api"], first["version"], first["client_id"]) == ("Metadata", 12, "me")
    assert first["fields"][0] == {
        "name": "length",
        "type": "int32",
        "start": 0,
        "end": 4,
        "value": len(FRAME) - 4,
    }


def test_capture_is_shown_and_filtered(barnabas: Barnabas, tmp_path: Path) -> None:
    file = tmp_path / "capture.pcap"
    file.write_bytes(pcap([*opening(), Sent(True, 0, FRAME + bytes.fromhex(HEX))]))
    both = barnabas("inspect", str(file), "--summary")
    assert [line.split()[1] for line in both.lines] == ["Metadata", "ApiVersions"]
    assert "10.0.0.1:50000 - 10.0.0.2:9092" in both.lines[0]
    one = barnabas("inspect", str(file), "--summary", "--api", "metadata")
    assert [line.split()[1] for line in one.lines] == ["Metadata"]


def test_responses_messages_and_batches_are_shown(barnabas: Barnabas, tmp_path: Path) -> None:
    answer = barnabas(
        "inspect", "--hex", "0000000a00000001000000000000", "--response", "ApiVersions:0"
    )
    assert answer.lines[0] == "< ApiVersions v0 response  correlation 1  14 bytes"
    message = barnabas("inspect", "--message", "topicrecord:0", "076576656e7473" + "00" * 17)
    assert '      0-7      name  "events"  compact string' in message.lines
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(build_batch([Record(0, 1, b"key", b"value")]))
    batches = barnabas("inspect", "--batches", str(segment), "--json").data
    assert batches["fields"][0]["note"] == "1 records, offsets 0-0, not compressed"


def test_secret_is_masked(barnabas: Barnabas) -> None:
    frame = b"".join(encode_request(1, "me", SaslAuthenticateRequest(auth_bytes=b"\0a\0pw"), 2))
    outcome = barnabas("inspect", frame.hex(), "--full")
    assert "5 bytes, hidden" in outcome.out
    assert b"\0a\0pw".hex() not in outcome.out


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (["nothing-there"], "nothing-there: No such file", 1),
        (["--hex", "xyz"], "not hex", 1),
        ([HEX, "--api", "Nonsense"], "Unknown API 'Nonsense'", 1),
        ([HEX, "--response", "Fetch"], "NAME:VERSION, for example Fetch:12", 1),
        ([HEX, "--response", "Fetch:99"], "Fetch has versions 4-18, not 99", 1),
        ([HEX, "--message", "Nonsense:0"], "Unknown message 'Nonsense'", 1),
        ([HEX[:-2]], "could not be decoded", 1),
        (["--message", "TopicRecord:0", "0765"], "expected 6, found 1", 1),
        ([], "Use a SOURCE", 2),
        (["--listen", "9093"], "must be used together", 2),
        (["--listen", "nowhere:x", "--to", "localhost:9092"], "HOST:PORT", 1),
    ],
)
def test_wrong_source_is_one_line_on_stderr(
    barnabas: Barnabas, arguments: list[str], told: str, code: int
) -> None:
    outcome = barnabas("inspect", *arguments)
    assert outcome.code == code
    assert told in outcome.err
    assert outcome.err.startswith("barnabas: ")
    assert len(outcome.err.splitlines()) == 1


def test_color_option_colours_the_output(barnabas: Barnabas) -> None:
    assert "\x1b[" not in barnabas("inspect", HEX).out
    assert "\x1b[" in barnabas("inspect", HEX, "--colour").out


def test_live_client_is_shown_until_it_is_interrupted() -> None:
    from confluent_kafka.admin import AdminClient

    from barnabas.testing import Node

    with Node() as node:
        command = [sys.executable, "-m", "barnabas", "inspect", "--listen", "0", "--json"]
        process = subprocess.Popen(
            [*command, "--to", node.bootstrap],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert process.stderr is not None
        port = int(process.stderr.readline().split(b" go to ")[0].rpartition(b":")[2])
        metadata = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=60)
        assert [(b.host, b.port) for b in metadata.brokers.values()] == [("127.0.0.1", port)]
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    shown = [json.loads(line) for line in out.splitlines()]
    assert {("Metadata", "request"), ("Metadata", "response")} <= {
        (frame.get("api"), frame["direction"]) for frame in shown
    }
    assert process.returncode == 130
