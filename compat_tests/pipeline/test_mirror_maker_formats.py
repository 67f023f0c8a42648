"""Records, names and translated offsets are those of MirrorMaker 2's own classes."""

import random
import subprocess
from enum import Enum
from pathlib import Path

import pytest

from barnabas.pipeline.definitions.config_def import ConfigKey
from barnabas.pipeline.definitions.config_types import value_text
from barnabas.pipeline.mirror.mirrormaker.connector_properties import (
    CHECKPOINT_DEFINITION,
    HEARTBEAT_DEFINITION,
    SOURCE_DEFINITION,
)
from barnabas.pipeline.mirror.mirrormaker.internal_records import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
)
from barnabas.pipeline.mirror.mirrormaker.offset_translation import PartitionSyncs, SyncPoint
from barnabas.pipeline.mirror.mirrormaker.replication_policies import ReplicationPolicy
from compat_tests import jars

pytestmark = [
    jars.needed,
    pytest.mark.skipif(
        not any(jars.CONNECTORS.glob("connect-mirror-4*.jar")),
        reason="MirrorMaker 2's jars are missing: run `make compat` with mvn on the PATH",
    ),
]

JAVA = {None: "null", True: "true", False: "false"}
PROGRAM = Path(__file__).with_name("MirrorMakerOracle.java")
PARTS = (
    "A",
    "B",
    "t",
    "heartbeats",
    "checkpoints",
    "internal",
    "mm2",
    "mm2-offset-syncs",
    "__x",
    "",
)


def ask(lines: list[list[str]]) -> list[str]:
    """Return one line of the JVM for each line of words."""
    options = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    done = subprocess.run(
        [
            *("java", *jars.TOOL_OPTIONS, *jars.archive_options(), *options),
            *("-cp", f"{jars.classpath()}:{jars.CONNECTORS}/*", str(PROGRAM)),
        ],
        input="".join("\t".join(words) + "\n" for words in lines),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def hexes(record: Heartbeat | Checkpoint | OffsetSync) -> str:
    return f"{record.key().hex()} {record.value().hex()}"


def names_of(policy: ReplicationPolicy, target: str, topic: str) -> list[str]:
    """Return what the program answers for a policy."""
    found: list[str | bool | None] = [
        policy.remote_topic(topic),
        policy.topic_source(topic),
        policy.upstream_topic(topic),
        policy.is_internal(topic),
        policy.is_checkpoints(topic),
        policy.offset_syncs_topic(target),
        policy.checkpoints_topic,
        policy.is_cycle(topic, target),
        policy.is_heartbeats(topic),
    ]
    return [each if isinstance(each, str) else JAVA[each] for each in found]


def test_java_agrees_on_records_names_and_translations() -> None:
    chance = random.Random(23)
    lines: list[list[str]] = []
    expected: list[str] = []
    for number in range(200):
        time_ms, up, down = (chance.randrange(2**62) for _ in range(3))
        group, topic = f"g-é-{number}", "".join(chance.choices("abc._-", k=9))
        lines.append(["heartbeat", group, topic, str(time_ms)])
        expected.append(hexes(Heartbeat(group, topic, time_ms)))
        lines.append(["checkpoint", group, topic, str(number), str(up), str(down), "m"])
        expected.append(hexes(Checkpoint(group, topic, number, up, down, "m")))
        lines.append(["sync", topic, str(number), str(up), str(down)])
        expected.append(hexes(OffsetSync(topic, number, up, down)))
    for _ in range(600):
        separator = chance.choice([".", "_", "--"])
        is_identity, separates = chance.random() < 0.3, chance.random() < 0.7
        topic = chance.choice([".", separator]).join(
            chance.choices(PARTS, k=chance.randrange(1, 4))
        )
        policy = ReplicationPolicy("A", is_identity, separator, separates)
        kind = "identity" if is_identity else "default"
        lines.append(["policy", kind, separator, str(separates).lower(), "A", "B", topic])
        expected.append("\t".join(names_of(policy, "B", topic)))
    for _ in range(200):
        words, answer = translations(chance)
        lines.append(words)
        expected.append(answer)
    for words, found, wanted in zip(lines, ask(lines), expected, strict=True):
        assert found == wanted, words


def default_text(key: ConfigKey) -> str:
    """Return a default as Java writes it."""
    if isinstance(key.default, Enum):
        return "required"
    text = value_text(key.default)
    return "null" if text is None else text


def test_java_agrees_on_properties_and_messages() -> None:
    definitions = {
        "Source": SOURCE_DEFINITION,
        "Checkpoint": CHECKPOINT_DEFINITION,
        "Heartbeat": HEARTBEAT_DEFINITION,
    }
    given = [
        {"source.cluster.alias": "A", "enabled": "maybe", "admin.timeout.ms": "soon"},
        {"replication.policy.separator": "_", "security.protocol": "NONE"},
        {"source.cluster.alias": "A", "offset-syncs.topic.location": "there"},
        {"source.cluster.alias": "A", "replication.factor": "9999999999"},
        {"source.cluster.alias": "A", "checkpoints.topic.replication.factor": "40000"},
        {"source.cluster.alias": "A", "emit.heartbeats.interval.seconds": "1.5"},
        {"source.cluster.alias": "A", "sasl.login.refresh.window.factor": "0.25"},
        {"source.cluster.alias": "A", "sasl.login.refresh.buffer.seconds": "3601"},
        {"source.cluster.alias": "A", "sasl.oauthbearer.assertion.algorithm": "none"},
        {"source.cluster.alias": "A", "sasl.login.connect.timeout.ms": "soon"},
    ]
    lines = [["definition", kind] for kind in definitions]
    expected = [
        "\t".join(
            " ".join(
                [
                    *(key.name, key.type.name, default_text(key)),
                    *(key.importance.value, key.display_name),
                ]
            )
            for key in definition.keys.values()
        )
        for definition in definitions.values()
    ]
    for kind, definition in definitions.items():
        for config in given:
            lines.append(["errors", kind, *(f"{name}={value}" for name, value in config.items())])
            found = [error for each in definition.validate(config) for error in each.errors]
            expected.append("\t".join(found))
    for words, found, wanted in zip(lines, ask(lines), expected, strict=True):
        # Java's errors have no order.
        is_sorted = words[0] == "errors"
        both = [each.split("\t") for each in (found, wanted)]
        assert both[0] == both[1] or (is_sorted and sorted(both[0]) == sorted(both[1])), words


def translations(chance: random.Random) -> tuple[list[str], str]:
    """Return a line with syncs and offsets, and their translations."""
    syncs, pairs = PartitionSyncs(), list[str]()
    up = down = 0
    for _ in range(chance.randrange(1, 60)):
        up = 0 if chance.random() < 0.02 else up + chance.randrange(1, 300)
        down += chance.randrange(1, 200)
        syncs.add(SyncPoint(up, down))
        pairs.append(f"{up}:{down}")
    offsets = [chance.randrange(up + 20) for _ in range(20)]
    answers = " ".join(f"OptionalLong[{syncs.translate(offset)}]" for offset in offsets)
    return ["store", ",".join(pairs), ",".join(map(str, offsets))], answers
