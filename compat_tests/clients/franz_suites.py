"""The test suites of franz-go's packages kgo and kadm, compiled by the Makefile.

Each runs in the folder of its sources in Go's module cache, as with `go test`: some read them.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from compat_tests.clients.outcomes import Outcome, of_go

BINARIES = Path(__file__).parent.parent.parent / ".cache" / "franz"
_END_S = 30.0
_OWN_DIALER = "TestIssue769"
"""A test that opens its connections itself, which kgo refuses beside TLS."""


def missing() -> str | None:
    """Return in one line why the suites cannot run here, or None."""
    if not (BINARIES / ".built").exists():
        return "franz-go's suites are missing: run `make compat` where go 1.26 is installed"
    return None


@dataclass(frozen=True)
class ClientFiles:
    """PEM files of a client over TLS: the authority that it trusts, and its own certificate."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True)
class ScramUser:
    """A user of SCRAM-SHA-512."""

    name: str
    password: str


def run(
    package: str,
    bootstrap: str,
    *,
    records: int,
    tests: str = ".",
    timeout_s: float,
    tls: ClientFiles | None = None,
    user: ScramUser | None = None,
) -> list[Outcome]:
    """Run the tests of a package whose names match, on a cluster of three nodes.

    With `tls` the clients connect over TLS, with `user` they log in (kgo only). Raises
    AssertionError when the suite ends without the result of each test.
    """
    environment = {
        **os.environ,
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": "3",
        "KGO_TEST_RECORDS": str(records),
        "KGO_LOG_LEVEL": "none",
    }
    if tls is not None:
        files = {"ca": tls.authority, "cert": tls.certificate, "key": tls.key}
        given = [f"{name}:{file}" for name, file in files.items() if file is not None]
        environment["KGO_TEST_TLS"] = ",".join(given)
    if user is not None:
        environment["KGO_TEST_SCRAM"] = f"{user.name}:{user.password}:512"
    command = [BINARIES / f"{package}.test", "-test.v", f"-test.run={tests}"]
    if tls is not None:
        command.append(f"-test.skip={_OWN_DIALER}")
    done = subprocess.run(
        [*command, f"-test.timeout={timeout_s:.0f}s"],
        env=environment,
        cwd=(BINARIES / f"{package}.folder").read_text().strip(),
        capture_output=True,
        text=True,
        timeout=timeout_s + _END_S,
        check=False,
    )
    outcomes = of_go(done.stdout)
    is_complete = done.stdout.rstrip().endswith(("PASS", "FAIL"))
    if not outcomes or not is_complete or "panic: " in done.stderr:
        ends = f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
        raise AssertionError(f"{package}'s suite ended with status {done.returncode}:\n{ends}")
    return outcomes
