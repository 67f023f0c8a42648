"""Values that are kept elsewhere, and what a client may not read; masks."""

from pathlib import Path

import pytest

from barnabas.pipeline.connect.config_providers import ConfigProviders, ProviderLimits
from barnabas.pipeline.connect.secret_masking import MASK, masked, unmasked
from barnabas.pipeline.definitions.config_types import ConfigValueError


@pytest.fixture
def providers(tmp_path: Path) -> ConfigProviders:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "s.properties").write_text("user=alice\npassword=s3cret\n")
    (tmp_path / "allowed" / "token").write_text("t0ken")
    (tmp_path / "other").write_text("private")
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "other")
    limits = ProviderLimits([tmp_path / "allowed"], ["APP_.*"])
    return ConfigProviders(limits, {"APP_KEY": "key", "HOME": "/root"})


def resolved(providers: ConfigProviders, value: str) -> str | None:
    return providers.resolve({"n": value})["n"]


def test_references_are_replaced(providers: ConfigProviders, tmp_path: Path) -> None:
    file = tmp_path / "allowed" / "s.properties"
    assert resolved(providers, f"${{file:{file}:user}}:${{file:{file}:password}}") == "alice:s3cret"
    assert resolved(providers, f"${{dir:{tmp_path / 'allowed'}:token}}") == "t0ken"
    assert resolved(providers, "a ${env:APP_KEY} b") == "a key b"


def test_unknown_provider_and_missing_key_stay(providers: ConfigProviders, tmp_path: Path) -> None:
    file = tmp_path / "allowed" / "s.properties"
    for value in ("${vault:x:y}", f"${{file:{file}:none}}", "${env:APP_NONE}", "${plain}"):
        assert resolved(providers, value) == value


@pytest.mark.parametrize(
    "reference",
    [
        "${{env:HOME}}",
        "${{env:xAPP_KEY}}",
        "${{file:{0}/other:a}}",
        "${{file:{0}/allowed/../other:a}}",
        "${{file:/etc/passwd:root}}",
        "${{dir:{0}:other}}",
        "${{dir:{0}/allowed:../other}}",
        "${{dir:{0}/allowed:link}}",
        "${{file:{0}/allowed/none:a}}",
    ],
)
def test_reference_outside_the_limits_is_refused(
    providers: ConfigProviders, tmp_path: Path, reference: str
) -> None:
    with pytest.raises(ConfigValueError) as caught:
        resolved(providers, reference.format(tmp_path))
    assert "private" not in str(caught.value)


def test_reference_without_limits_is_refused() -> None:
    with pytest.raises(ConfigValueError):
        resolved(ConfigProviders(ProviderLimits()), "${env:PATH}")


@pytest.mark.parametrize(
    "name",
    [
        "connection.password",
        "consumer.override.sasl.jaas.config",
        "producer.override.ssl.keystore.key",
        "value.converter.basic.auth.user.info",
        "aws.secret.access.key",
        "api.token",
        "own",
    ],
)
def test_secret_is_masked_and_comes_back(name: str) -> None:
    config = {name: "s3cret", "file": "/tmp/x"}
    shown = masked(config, {"own"})
    assert shown == {name: MASK, "file": "/tmp/x"}
    assert unmasked({**shown, "file": "/tmp/y"}, config) == {name: "s3cret", "file": "/tmp/y"}


def test_reference_to_a_secret_is_shown() -> None:
    config = {"connection.password": "${file:/x:y}"}
    assert masked(config) == config
