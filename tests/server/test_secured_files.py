"""The authority and the certificate of a secured node, whose start is killed at any step."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from barnabas.config import ConfigError
from barnabas.server.node.secured_files import SecuredFiles

NAMES = ("localhost", "127.0.0.1")


class Killed(BaseException):
    """The process ends here."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> bool:
    """Do the work until its `step`-th change of a directory; return False when it has fewer."""
    left = step

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            nonlocal left
            if not left:
                raise Killed
            left -= 1
            return change(*args, **options)

        return run

    with monkeypatch.context() as patched:
        for owner, name in ((os, "open"), (os, "replace"), (os, "fsync"), (Path, "unlink")):
            patched.setattr(owner, name, counted(getattr(owner, name)))
        try:
            work()
        except Killed:
            return True
    return False


def is_issued(files: SecuredFiles) -> bool:
    """Return True when the authority that clients have has issued the node's certificate."""
    issued, authority = (
        x509.load_pem_x509_certificate(path.read_bytes())
        for path in (files.node_key, files.authority)
    )
    try:
        issued.verify_directly_issued_by(authority)
    except Exception:
        return False
    return True


def test_start_after_a_kill_at_any_step_has_a_certificate_of_its_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    killed = True
    while killed:
        files = SecuredFiles(tmp_path / str(steps))
        files.prepare_certificate(NAMES)
        files.authority.unlink()  # the documented way to a new authority
        killed = killed_at(steps, monkeypatch, partial(files.prepare_certificate, NAMES))
        files.prepare_certificate(NAMES)
        assert is_issued(files), steps
        steps += 1
    assert steps > 8


def test_damaged_authority_is_an_error_that_names_the_files(tmp_path: Path) -> None:
    files = SecuredFiles(tmp_path)
    files.prepare_certificate(NAMES)
    files.authority.write_text("damaged")
    files.node_key.unlink()
    with pytest.raises(ConfigError, match=r"remove ca\.pem, ca-key\.pem and node\.pem"):
        files.prepare_certificate(NAMES)
