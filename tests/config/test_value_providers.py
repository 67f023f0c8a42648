"""References in a node's properties, declared as for Apache Kafka."""

import re
from pathlib import Path

import pytest

from barnabas.config import ConfigError, NodeConfig
from barnabas.config.value_providers import resolved_properties

KAFKA = "org.apache.kafka.common.config.provider."
DECLARED = {
    "config.providers": "file, dir,env",
    "config.providers.file.class": f"{KAFKA}FileConfigProvider",
    "config.providers.dir.class": f"{KAFKA}DirectoryConfigProvider",
    "config.providers.env.class": f"{KAFKA}EnvVarConfigProvider",
}
ENVIRONMENT = {"BARNABAS_KEY": "from-env", "OTHER": "x"}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "keys.properties").write_text("key=s3cret\nother=a:b=c ${x}\n")
    (tmp_path / "secrets" / "token").write_text("t0ken")
    (tmp_path / "outside").write_text("key=private")
    return tmp_path / "secrets"


def resolved(value: str, **declared: str) -> str:
    names = {name.replace("_", "."): text for name, text in declared.items()}
    return resolved_properties({**DECLARED, **names, "n": value}, ENVIRONMENT)["n"]


def test_references_of_the_three_providers_are_replaced(secrets: Path) -> None:
    file = secrets / "keys.properties"
    assert resolved(f"a ${{file:{file}:key}} b") == "a s3cret b"
    assert resolved(f"${{file:{file}:other}}") == "a:b=c ${x}"
    assert resolved(f"${{dir:{secrets}:token}}${{env:BARNABAS_KEY}}") == "t0kenfrom-env"


def test_text_that_is_not_a_reference_of_a_declared_provider_stays() -> None:
    for value in ("$x", "${plain}", "${vault:a:b}", "${HOME}", "{file:a:b}"):
        assert resolved(value) == value
    unused = {"n": "${env:BARNABAS_KEY}"}
    assert resolved_properties(unused, ENVIRONMENT) == unused


@pytest.mark.parametrize(
    "reference",
    ["${{file:{0}/keys.properties:none}}", "${{dir:{0}:none}}", "${{env:NONE}}"],
)
def test_reference_to_a_missing_key_stops_the_start(reference: str, secrets: Path) -> None:
    value = reference.format(secrets)
    with pytest.raises(ConfigError) as refused:
        resolved(f"pass-{value}")
    assert refused.value.name == "n"
    assert f"{value} does not exist" in refused.value.message
    assert "pass-" not in refused.value.message


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("${{file:{0}/none.properties:key}}", "none.properties: No such file"),
        ("${{env:{0}:BARNABAS_KEY}}", "have no path"),
    ],
)
def test_reference_that_cannot_be_read_stops_the_start(
    reference: str, says: str, secrets: Path
) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        resolved(reference.format(secrets))
    assert refused.value.name == "n"


def test_providers_read_only_what_their_parameters_allow(secrets: Path) -> None:
    limits = {
        "config_providers_file_param_allowed_paths": f"{secrets},/none",
        "config_providers_dir_param_allowed_paths": str(secrets),
        "config_providers_env_param_allowlist_pattern": "BARNABAS_.*",
    }
    assert resolved(f"${{file:{secrets}/keys.properties:key}}", **limits) == "s3cret"
    assert resolved("${env:BARNABAS_KEY}", **limits) == "from-env"
    for value, parameter in (
        (f"${{file:{secrets}/../outside:key}}", "file.param.allowed.paths"),
        (f"${{dir:{secrets.parent}:outside}}", "dir.param.allowed.paths"),
        ("${env:OTHER}", "env.param.allowlist.pattern"),
    ):
        with pytest.raises(ConfigError, match=f"config.providers.{parameter} does not allow"):
            resolved(value, **limits)


@pytest.mark.parametrize(
    ("changes", "name", "says"),
    [
        ({"config.providers": "vault"}, "config.providers.vault.class", "Missing configuration"),
        ({"config.providers.env.class": "org.example.Vault"}, "config.providers.env.class",
         "Invalid value org.example.Vault"),
        ({"config.providers.env.param.allowlist.pattern": "("},
         "config.providers.env.param.allowlist.pattern", "Invalid value ("),
    ],
)  # fmt: skip
def test_provider_with_an_invalid_declaration_stops_the_start(
    changes: dict[str, str], name: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)) as refused:
        resolved_properties({**DECLARED, **changes}, {})
    assert refused.value.name == name


def test_node_configuration_has_the_values_and_shows_them_nowhere(
    secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARNABAS_KEY", "8")
    file = tmp_path / "server.properties"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "num.partitions": "${env:BARNABAS_KEY}",
        **DECLARED,
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    password = f"${{file:{secrets}/keys.properties:key}}"
    config = NodeConfig.load(file, {"ssl.keystore.password": password})
    assert config.get("num.partitions") == 8
    assert config.get("ssl.keystore.password") == "s3cret"
    assert "s3cret" not in "".join(config.warnings)
