"""Modules that start a process import no HTTP client and no SQLAlchemy: their first use does."""

import subprocess
import sys

import pytest

STARTS = (
    "barnabas.cli.main",
    "barnabas.cli.serve_command",
    "barnabas.cli.job_command",
    "barnabas.cli.schema_command",
    "barnabas.cli.group_command",
    "barnabas.pipeline.connect.record_chain",
    "barnabas.pipeline.connect.registry_client",
    "barnabas.pipeline.delivery.worker_tasks",
    "barnabas.pipeline.rest.request_forwarding",
    "barnabas.pipeline.runner.runner_process",
)


@pytest.mark.parametrize("module", STARTS)
def test_module_imports_no_http_client(module: str) -> None:
    heavy = ("httpx", "httpcore", "anyio", "urllib.request", "http.client")
    if module.startswith("barnabas.pipeline.r"):
        heavy = heavy[:2]  # Starlette has the others
    check = f"import sys, {module}; print([n for n in {heavy} if n in sys.modules])"
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"


JDBC = "barnabas.pipeline.connect.connectors.jdbc_"


@pytest.mark.parametrize("module", [*STARTS, f"{JDBC}source", f"{JDBC}sink"])
def test_module_imports_no_sqlalchemy(module: str) -> None:
    """Spark's workers and the runner start without it, and it takes 0.15 s."""
    check = f"import sys, {module}; print('sqlalchemy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert out.stdout == "False\n"
