"""Options of `barnabas serve`, and the modules that its start imports."""

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.cli.main import run
from barnabas.cli.serve_command import configuration, registry_option
from barnabas.config import ConfigError, NodeConfig


def listeners(config: NodeConfig) -> list[str]:
    return [str(listener) for listener in config.listeners]


def test_listen_moves_both_listeners() -> None:
    advertised = ("advertised.listeners=PLAINTEXT://kafka.example.org:19092",)
    config = configuration(Path("d"), "0.0.0.0:19092", None, advertised)
    assert listeners(config) == ["PLAINTEXT://0.0.0.0:19092", "CONTROLLER://127.0.0.1:19093"]
    assert config.log_dirs == (Path("d"),)


def test_listen_on_port_0_takes_two_free_ports() -> None:
    config = configuration(None, "127.0.0.1:0", None, ())
    assert listeners(config) == ["PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0"]


def test_listen_keeps_other_listeners_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=QUORUM\n"
        "listeners=PLAINTEXT://:9092,QUORUM://10.0.0.1:9999\n"
    )
    config = configuration(None, "[::1]:1234", file, ())
    assert listeners(config) == ["PLAINTEXT://[::1]:1234", "QUORUM://10.0.0.1:9999"]


def test_last_setting_of_a_property_wins() -> None:
    config = configuration(None, None, None, ("num.partitions=2", "num.partitions=3"))
    assert config.get("num.partitions") == 3


@pytest.mark.parametrize("listen", ["9092", "host:", "host:x"])
def test_listen_without_host_and_port_is_refused(listen: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        configuration(None, listen, None, ())


def test_listen_with_a_port_out_of_range_names_the_port() -> None:
    with pytest.raises(ConfigError, match="the port must be from 0 to 65535"):
        configuration(None, "127.0.0.1:99999", None, ())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "num.partition=1"], "Did you mean num.partitions?"),
        (["--set", "num.partitions=no"], "Invalid value no for configuration num.partitions"),
        (["--set", "num.partitions"], "NAME=VALUE"),
        (["--config", "nowhere.properties"], "nowhere.properties: No such file"),
    ],
)
def test_bad_option_is_one_line_and_creates_no_data(
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["serve", *arguments]) == 1
    err = capsys.readouterr().err
    assert err.startswith("barnabas: ")
    assert err.count("\n") == 1
    assert says in err
    assert list(tmp_path.iterdir()) == []


def test_serve_imports_no_kafka_client_and_no_rich() -> None:
    check = (
        "import sys; import barnabas.cli.main, barnabas.cli.serve_command;"
        "print([n for n in ('rich', 'confluent_kafka', 'asyncio', 'json') if n in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1:8081", "http://127.0.0.1:8081"),
        ("0.0.0.0:81", "http://127.0.0.1:81"),
        ("[::1]:81", "http://[::1]:81"),
    ],
)
def test_sql_gets_the_registry_beside_the_node(listen: str, url: str) -> None:
    expected = ("--set", f"ksql.schema.registry.url={url}")
    assert registry_option(listen, None) == expected


def test_sql_keeps_the_registry_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "runner.properties"
    file.write_text("group.id=jobs\n")
    assert registry_option("127.0.0.1:8081", file) != ()
    file.write_text("ksql.schema.registry.url=http://registry:8081\n")
    assert registry_option("127.0.0.1:8081", file) == ()
    assert registry_option("127.0.0.1:0", None) == ()
