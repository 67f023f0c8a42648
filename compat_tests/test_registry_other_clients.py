"""Clients of schema registries for Node, Go and Rust against our registry."""

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.registry_instances import RegistryInstance, instances

pytest.importorskip("starlette")
pytest.importorskip("hypercorn")

ROOT = Path(__file__).parent.parent
NODE_MODULES = ROOT / ".cache" / "node" / "node_modules"
GO_CLIENT = ROOT / ".cache" / "go" / "registryclients"
RUST_CLIENT = ROOT / ".cache" / "rust" / "target" / "debug" / "registryclients"


def missing_node() -> str | None:
    """Return in one line why Node's clients cannot run here, or None."""
    if shutil.which("node") is None:
        return "node is missing: install Node 20 (Debian: nodejs npm)"
    if not (NODE_MODULES / "@confluentinc" / "schemaregistry").exists():
        return "Node's clients are missing: run `make compat` where npm is installed"
    return None


def missing_go() -> str | None:
    """Return in one line why Go's client cannot run here, or None."""
    if not GO_CLIENT.exists():
        return "Go's client is missing: run `make compat` where go is installed"
    return None


def missing_rust() -> str | None:
    """Return in one line why Rust's client cannot run here, or None."""
    if not RUST_CLIENT.exists():
        return "Rust's client is missing: run `make compat-rust` where cargo is installed"
    return None


@pytest.fixture
def registry(bootstrap: str) -> Iterator[RegistryInstance]:
    name = f"_schemas_{random.randrange(1 << 40)}"
    with instances(bootstrap, 1, "--topic", name, "--group", name) as (found,):
        yield found


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> None:
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=cwd, env=environment or None
    )
    assert result.stdout.endswith("ok\n"), result.stdout + result.stderr


def test_clients_of_node_register_write_and_read(registry: RegistryInstance) -> None:
    if reason := missing_node():
        pytest.skip(reason)
    script = Path(__file__).parent / "node" / "registry_clients.cjs"
    node = shutil.which("node") or "node"
    run(node, script, registry.url, "AVRO", "JSON", "PROTOBUF", NODE_PATH=str(NODE_MODULES))


def test_client_of_go_registers_checks_and_deletes(registry: RegistryInstance) -> None:
    if reason := missing_go():
        pytest.skip(reason)
    run(GO_CLIENT, registry.url)


def test_client_of_rust_registers_writes_and_reads(registry: RegistryInstance) -> None:
    if reason := missing_rust():
        pytest.skip(reason)
    run(RUST_CLIENT, registry.url)
