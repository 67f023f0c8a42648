"""The properties file of connect-mirror-maker.sh, as connectors."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas.cli.mirror_command import mirror
from barnabas.pipeline.mirror.mirrormaker.maker_file import (
    TASKS,
    UNKNOWN,
    WORKER,
    MakerFileError,
    MakerPlan,
    maker_plan,
)
from barnabas.pipeline.mirror.mirrormaker.maker_settings import checkpoint_settings, source_settings

FILE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:9092",
    "B.bootstrap.servers": "b:9092",
    "A->B.enabled": "true",
}


def configs(plan: MakerPlan) -> dict[str, dict[str, str]]:
    return {each["name"]: dict(each) for each in plan.connectors}


def test_an_enabled_flow_has_three_connectors_and_the_other_direction_heartbeats() -> None:
    plan = maker_plan(FILE)
    assert plan.flows == ("A->B",)
    assert list(configs(plan)) == [
        "A-B.MirrorSourceConnector",
        "A-B.MirrorCheckpointConnector",
        "A-B.MirrorHeartbeatConnector",
        "B-A.MirrorHeartbeatConnector",
    ]
    silent = maker_plan({**FILE, "B->A.emit.heartbeats.enabled": "false"})
    assert len(silent.connectors) == 3
    assert len(maker_plan({**FILE, "emit.heartbeats.enabled": "false"}).connectors) == 3


def test_properties_of_a_flow_replace_those_of_all() -> None:
    plan = maker_plan({**FILE, "topics": "a.*", "A->B.topics": "b.*", "groups": "g"})
    source = configs(plan)["A-B.MirrorSourceConnector"]
    assert (source["topics"], "groups" in source) == ("b.*", False)
    assert source["offsets.storage.topic"] == "mm2-offsets.A.internal"
    checkpoints = configs(plan)["A-B.MirrorCheckpointConnector"]
    assert (checkpoints["topics"], checkpoints["groups"]) == ("b.*", "g")
    settings = source_settings(source, {})
    assert (settings.source.bootstrap[0].host, settings.target.bootstrap[0].host) == ("a", "b")
    assert checkpoint_settings(checkpoints, {}).common.target_alias == "B"


def test_clients_of_a_cluster_have_its_properties() -> None:
    plan = maker_plan(
        {
            **FILE,
            "B.security.protocol": "SASL_PLAINTEXT",
            "B.producer.sasl.mechanism": "PLAIN",
            "B.sasl.jaas.config": 'org.x.PlainLoginModule required username="u" password="p";',
        }
    )
    settings = source_settings(configs(plan)["A-B.MirrorSourceConnector"], {})
    assert settings.source.sasl is None
    assert settings.target.sasl is not None


def test_flows_to_some_clusters_only() -> None:
    three = {**FILE, "clusters": "A, B, C", "C.bootstrap.servers": "c:9092", "A->C.enabled": "true"}
    assert maker_plan(three).flows == ("A->B", "A->C")
    assert maker_plan(three, ("C",)).flows == ("A->C",)
    with pytest.raises(MakerFileError, match="cluster D is not one of A, B, C"):
        maker_plan(three, ("D",))


def test_each_property_without_effect_is_named() -> None:
    plan = maker_plan(
        {
            **FILE,
            "tasks.max": "4",
            "offset.storage.replication.factor": "3",
            "A->B.unheard.of": "1",
            "A->X.enabled": "true",
            "consumer.fetch.max.bytes": "1",
        }
    )
    assert plan.ignored == {
        "tasks.max": TASKS,
        "offset.storage.replication.factor": WORKER,
        "A->B.unheard.of": UNKNOWN,
        "A->X.enabled": "it is of clusters other than A, B",
    }


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"clusters": "A"}, "at least two clusters"),
        ({"B.bootstrap.servers": ""}, r"B\.bootstrap\.servers is missing"),
        ({"A->B.enabled": "false"}, "no flow is enabled"),
    ],
)
def test_a_file_without_a_flow_is_refused(changed: dict[str, str], text: str) -> None:
    with pytest.raises(MakerFileError, match=text):
        maker_plan({**FILE, **changed})


def test_the_command_shows_connectors_and_refuses_values(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("".join(f"{name} = {value}\n" for name, value in FILE.items()))
    shown = CliRunner().invoke(mirror, ["run", "--check", str(file)], standalone_mode=False)
    assert "A-B.MirrorCheckpointConnector" in shown.output
    assert "1 flow enabled: A->B" in shown.output
    file.write_text(file.read_text() + "replication.policy.class = org.example.Own\n")
    refused = CliRunner().invoke(mirror, ["run", "--check", str(file)])
    assert refused.exit_code != 0
    assert "replication.policy.class" in refused.output
