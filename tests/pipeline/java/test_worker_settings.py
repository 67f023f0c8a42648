"""The files of Java's worker: what it gets from the runner, and who may read them."""

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config import ConfigError, properties_file
from barnabas.pipeline.java import worker_settings
from barnabas.pipeline.java.worker_settings import properties_text, worker_properties
from barnabas.pipeline.jobs.runner_settings import RunnerSettings

SCRAM = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "u",
    "sasl.password": 'p"w',
}
CLIENTS = ("", "producer.", "consumer.", "admin.")


def loaded(**more: str) -> RunnerSettings:
    """Return settings with a worker; `_` in names replaces the dot."""
    named = {name.replace("_", "."): value for name, value in more.items()}
    return RunnerSettings.from_properties({"plugin.path": "/plugins", **named})


@pytest.mark.parametrize(
    ("url", "files"),
    [("https://i.example/token", []), ("file:///etc/token", ["/etc/token"])],
)
def test_address_of_tokens_is_allowed_to_the_jvm(url: str, files: list[str]) -> None:
    settings = loaded(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=url,
        sasl_oauthbearer_client_id="me",
        sasl_oauthbearer_client_secret="hidden",
    )
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    options = worker_settings.token_options(settings)
    assert options == [f"{allowed}.urls={url}", *(f"{allowed}.files={each}" for each in files)]
    found = properties(settings)
    for prefix in ("", "producer.", "consumer.", "admin."):
        assert found[f"{prefix}sasl.oauthbearer.token.endpoint.url"] == url
        assert ("hidden" in found[f"{prefix}sasl.jaas.config"]) == (not files)
    assert worker_settings.token_options(loaded()) == []


def properties(settings: RunnerSettings) -> dict[str, str]:
    assert settings.java is not None
    return worker_properties(settings, settings.java)


def test_runner_without_a_plugin_path_has_no_worker() -> None:
    assert RunnerSettings.from_properties({}).java is None
    assert RunnerSettings.from_properties({"plugin.path": ""}).java is None


def test_worker_has_its_own_group_and_topics_and_the_offsets_of_the_runner() -> None:
    found = properties(loaded(group_id="g", bootstrap_servers="kafka-1:9092"))
    assert found["group.id"] == "g-java"
    assert found["config.storage.topic"] == "connect-configs-java"
    assert found["status.storage.topic"] == "connect-status-java"
    assert found["offset.storage.topic"] == "connect-offsets"
    assert {found[f"{each}bootstrap.servers"] for each in CLIENTS} == {"kafka-1:9092"}


def test_worker_listens_on_the_loopback_interface_regardless_of_the_file() -> None:
    found = properties(
        loaded(listeners="http://0.0.0.0:8083", admin_listeners="http://0.0.0.0:9", rest_port="1")
    )
    assert found["listeners"] == "http://127.0.0.1:0"
    assert not {"admin.listeners", "rest.port"} & found.keys()
    assert found["rest.extension.classes"].endswith("BasicAuthSecurityRestExtension")


def test_properties_that_mean_something_to_java_only_are_passed_on() -> None:
    found = properties(
        loaded(
            plugin_discovery="service_load",
            consumer_max_poll_records="7",
            exactly_once_source_support="disabled",
            barnabas_rest_full_users="alice",
            spark_master="local[2]",
        )
    )
    assert found["plugin.discovery"] == "service_load"
    assert found["consumer.max.poll.records"] == "7"
    assert found["exactly.once.source.support"] == "disabled"
    assert not [name for name in found if name.startswith(("barnabas.", "spark."))]


def test_every_client_of_the_worker_logs_in_as_the_runner() -> None:
    settings = RunnerSettings.from_properties({"plugin.path": "/plugins", **SCRAM})
    found = properties(settings)
    for prefix in CLIENTS:
        assert found[f"{prefix}security.protocol"] == "SASL_PLAINTEXT"
        assert found[f"{prefix}sasl.mechanism"] == "SCRAM-SHA-256"
        login = found[f"{prefix}sasl.jaas.config"]
        assert login.endswith('ScramLoginModule required username="u" password="p\\"w";')
    assert "sasl.password" not in found


def test_certificate_and_key_in_two_files_become_a_store_of_java(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"the {name}\n")
    given = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(tmp_path / "ca"),
        "ssl.certificate.location": str(tmp_path / "certificate"),
        "ssl.key.location": str(tmp_path / "key"),
        "ssl.key.password": "secret",
    }
    found = properties(RunnerSettings.from_properties({"plugin.path": "/plugins", **given}))
    for prefix in CLIENTS:
        assert found[f"{prefix}ssl.truststore.location"] == str(tmp_path / "ca")
        assert found[f"{prefix}ssl.keystore.type"] == "PEM"
        assert found[f"{prefix}ssl.keystore.key"] == "the key\n"
        assert found[f"{prefix}ssl.keystore.certificate.chain"] == "the certificate\n"
        assert found[f"{prefix}ssl.key.password"] == "secret"


def test_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    given = {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(tmp_path / "none"),
        "ssl.key.location": str(tmp_path / "key"),
    }
    settings = RunnerSettings.from_properties({"plugin.path": "/plugins", **given})
    with pytest.raises(ConfigError, match=f"cannot read {tmp_path}/none: No such file"):
        properties(settings)


def test_providers_read_what_the_runner_allows() -> None:
    allowed = {"config.providers.allowed.paths": "/a,/b", "config.providers.allowed.env": "X_.*,Y"}
    given = {"plugin.path": "/plugins", "config.providers": "all", **allowed}
    found = properties(RunnerSettings.from_properties(given))
    assert found["config.providers"] == "file,dir,env"
    assert found["config.providers.file.param.allowed.paths"] == "/a,/b"
    assert found["config.providers.env.param.allowlist.pattern"] == "(?:X_.*)|(?:Y)"


def test_providers_of_a_file_for_java_are_not_used() -> None:
    """They would read every file for every client of the REST API."""
    given = {
        "plugin.path": "/plugins",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    found = properties(RunnerSettings.from_properties(given))
    assert not [name for name in found if name.startswith("config.providers")]


def test_options_of_the_jvm_are_split_as_a_shell_does() -> None:
    java = loaded(barnabas_java_options='-Xmx2g "-Dx=a b"').java
    assert java is not None
    assert java.jvm_options == ("-Xmx2g", "-Dx=a b")
    with pytest.raises(ConfigError, match="No closing quotation"):
        loaded(barnabas_java_options='"')


def test_files_are_private_and_hold_every_secret(tmp_path: Path) -> None:
    settings = RunnerSettings.from_properties({"plugin.path": "/plugins", **SCRAM})
    assert settings.java is not None
    files = worker_settings.write_files(tmp_path, settings, settings.java, "door")
    assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}
    assert properties_file.read(files.properties) == properties(settings)
    (module,) = [line for line in files.login.read_text().splitlines() if "file=" in line]
    passwords = Path(module.partition('file="')[2].removesuffix('";'))
    assert properties_file.read(passwords) == {"runner": "door"}
    assert 'p"w' not in repr(settings.java)


TEXTS = st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF))


@given(st.dictionaries(TEXTS.filter(bool), TEXTS))
def test_every_property_is_read_as_it_was_written(given: dict[str, str]) -> None:
    text = properties_text(given)
    assert text.isascii()
    assert properties_file.parse(text) == given


def test_character_beyond_16_bits_is_written_as_java_writes_it() -> None:
    assert properties_text({"a": "\U0001f600"}) == "a=\\ud83d\\ude00\n"
