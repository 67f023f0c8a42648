"""`make security-mistakes`: each planted mistake must make the tests of its subject fail.

Each row replaces one text of the source, in a copy, and runs tests against the copy. Prints what
noticed each mistake, and returns 1 when one was not noticed. `test_security_mistakes` holds that
the rows fit the source.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[2]
_PACKAGE: Final = Path("src/barnabas")
_FAILED_TESTS: Final = 1  # pytest's exit code
_INDEX, _SCRAM, _LOGIN = (
    "security/acl_index.py",
    "security/sasl/scram_mechanism.py",
    "security/sasl/sasl_authenticator.py",
)
_TOKENS, _CONNECTION = "security/token_validation.py", "server/transport/connection.py"


@attrs.frozen
class Mistake:
    """A mistake: the text `old` of a file becomes `new`; `tests` must notice it."""

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, text: str) -> str:
        """Return the text of the file with the mistake. Raises ValueError when it does not fit."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.what}: {self.file} has its text {text.count(self.old)} times")
        return text.replace(self.old, self.new)


MISTAKES: Final = (
    Mistake(
        "the nonce of the final message is not compared",
        _SCRAM,
        "if not hmac.compare_digest(final.nonce, first.nonce + self.server_nonce):",
        "if False:",
        ("tests/security/test_sasl_mechanisms.py",),
    ),
    Mistake(
        "the channel binding is not checked",
        _SCRAM,
        "if final.channel_binding != first.gs2_header.encode():",
        "if False:",
        ("tests/security/test_sasl_mechanisms.py",),
    ),
    Mistake(
        "an ALLOW wins over a DENY",
        _INDEX,
        "if denies:",
        "if denies and len(denies) == len(found):",
        ("tests/security/test_acl_index.py",),
    ),
    Mistake(
        "a prefix is taken for a whole name",
        _INDEX,
        "if length <= size]",
        "if length == size]",
        ("tests/security/test_acl_index.py",),
    ),
    Mistake(
        "the host of an ACL is ignored",
        _INDEX,
        "if acl.principal not in principals or acl.host not in (WILDCARD, host):",
        "if acl.principal not in principals:",
        ("tests/security/test_acl_index.py",),
    ),
    Mistake(
        "the client id of a request is its principal",
        "server/api/permissions.py",
        "        ctx.connection,\n",
        "        __import__('types').SimpleNamespace(\n"
        "            principal=type(ctx.connection.principal)('User', str(ctx.client_id)),\n"
        "            client_host=ctx.connection.client_host,\n"
        "        ),\n",
        (
            "tests/server/test_authorized_node.py::test_records_of_a_denied_topic_are_not_sent_to_a_forged_follower",
        ),
    ),
    Mistake(
        "a decision is kept after the ACLs have changed",
        "security/standard_authorizer.py",
        "        self._decisions, self._any = {}, {}\n\n    def authorize(",
        "\n    def authorize(",
        ("tests/security/test_standard_authorizer.py",),
    ),
    Mistake(
        "unsigned tokens and tokens signed with the public key as a secret are accepted",
        _TOKENS,
        "algorithms=_ALGORITHMS).claims",
        'algorithms=["none", "HS256", *_ALGORITHMS]).claims',
        ("tests/security/test_token_validation.py",),
    ),
    Mistake(
        "an expired token is accepted",
        _TOKENS,
        "now=now_ms // 1000",
        "now=0",
        ("tests/security/test_token_validation.py",),
    ),
    Mistake(
        "re-authentication may change the user",
        _LOGIN,
        "            self._check_identity(identity)\n",
        "",
        ("tests/security/test_sasl_authenticator.py",),
    ),
    Mistake(
        "an Envelope needs no rights",
        "server/api/registry.py",
        '"envelope.envelope_handler.envelope",\n         _CLUSTER_ACTION',
        '"envelope.envelope_handler.envelope",\n         UNRESTRICTED',
        ("tests/server/test_authorized_node.py",),
    ),
    Mistake(
        "a client that names a replica id reads as a follower",
        "server/api/handlers/data/fetch_access.py",
        "self.is_broker = is_follower and may_on_cluster(context, AclOperation.CLUSTER_ACTION)",
        "self.is_broker = is_follower",
        ("tests/server/test_authorized_node.py",),
    ),
    Mistake(
        "a throttle is reported, but the connection is not muted",
        "server/transport/mute.py",
        "            self.until_s = max(",
        "            self.until_s = 0 * max(",
        ("tests/server/test_connection.py",),
    ),
    Mistake(
        "records with acks=0 do not mute the connection",
        _CONNECTION,
        "            self._mute.extend(context.throttle_ms)\n            self.dispatcher.count",
        "            self.dispatcher.count",
        ("tests/server/test_connection.py",),
    ),
    Mistake(
        "a token may come before SaslHandshake",
        _LOGIN,
        "    state: State = State.INITIAL_REQUEST\n",
        "    state: State = State.AUTHENTICATE\n",
        ("tests/security/test_sasl_authenticator.py",),
    ),
    Mistake(
        "a connection is served after the end of its session",
        _CONNECTION,
        "elif self.login.is_expired:",
        "elif False:",
        ("tests/server/test_login.py",),
    ),
    Mistake(
        "a session does not end with its delegation token",
        _LOGIN,
        "if identity.expires_at_ms is not None:",
        "if False:",
        ("tests/security/test_sasl_authenticator.py",),
    ),
    Mistake(
        "a bad file at a reload takes the old certificate away",
        "server/transport/tls_listener.py",
        "            renewed = load_tls(config, self._listener)\n            self._check",
        "            self._settings, renewed = None, load_tls(config, self._listener)\n"
        "            self._check",
        ("tests/server/test_tls_connection.py",),
    ),
)


def source(mistake: Mistake) -> Path:
    """Return the file that a mistake changes."""
    return ROOT / _PACKAGE / mistake.file


def noticed_by(mistake: Mistake) -> list[str]:
    """Return the tests that fail with a mistake; none when it was not noticed.

    Raises RuntimeError when the tests do not run.
    """
    with tempfile.TemporaryDirectory(prefix="barnabas-mistake-") as name:
        copy = Path(name) / "src"
        shutil.copytree(
            ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        planted = copy / "barnabas" / mistake.file
        planted.write_text(mistake.planted(planted.read_text()))
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", *mistake.tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, re.MULTILINE)
    if ended.returncode not in (0, _FAILED_TESTS):
        raise RuntimeError(f"{mistake.what}: the tests do not run\n{ended.stdout[-2000:]}")
    return failed


def main() -> int:
    """Plant the mistakes in turn. Returns 1 when one is not noticed."""
    parser = argparse.ArgumentParser(prog="security-mistakes", description=__doc__)
    parser.add_argument("--only", default="", help="mistakes whose description contains this")
    wanted = parser.parse_args().only
    missed = 0
    for mistake in MISTAKES:
        if wanted not in mistake.what:
            continue
        began = time.monotonic()
        failed = noticed_by(mistake)
        missed += not failed
        outcome = f"{len(failed)} tests, {failed[0]}" if failed else "NOT NOTICED"
        print(f"{time.monotonic() - began:5.0f} s  {mistake.what}: {outcome}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
