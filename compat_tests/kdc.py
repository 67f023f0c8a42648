"""A Kerberos realm of a test: a KDC of MIT's krb5 in a temporary directory, as an ordinary user.

The programs are Debian's `krb5-kdc` and `krb5-admin-server`. Principals of services and users get
keytabs; a ticket cache is made from one with `kinit`, which the package `krb5-user` has.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports

REALM = "CASTLE.TEST"
HOST = "localhost"
SERVICE = f"kafka/{HOST}"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"

_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_CLIENT = """[libdefaults]
 default_realm = {realm}
 dns_canonicalize_hostname = false
 qualify_shortname = ""
 rdns = false
 dns_lookup_realm = false
 dns_lookup_kdc = false
 udp_preference_limit = 1
 ticket_lifetime = {lifetime_s}s
[realms]
 {realm} = {{
  kdc = {host}:{port}
 }}
[domain_realm]
 {host} = {realm}
"""
_SERVER = """[logging]
 kdc = FILE:{directory}/kdc.log
[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {directory}/principal
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
  max_life = 1h
  supported_enctypes = aes256-cts:normal
 }}
"""


def missing() -> str | None:
    """Return in one line why there can be no realm here, or None."""
    if any(shutil.which(each, path=_PATH) is None for each in _PROGRAMS):
        return (
            "a KDC is missing (Debian: apt install krb5-kdc krb5-admin-server krb5-user "
            "libsasl2-modules-gssapi-mit libkrb5-dev)"
        )
    if find_spec("gssapi") is None:
        return "gssapi is missing: pip install 'barnabas[kerberos]'"
    return None


needed = pytest.mark.skipif(missing() is not None, reason=missing() or "")
"""Skips a test, or the tests of a module, where no realm can be."""


def kcat_missing() -> str | None:
    """Return in one line why kcat cannot use Kerberos here, or None."""
    if shutil.which("kcat") is None:
        return "kcat is not on the PATH (Debian: apt install kcat)"
    if not any(Path("/usr/lib").glob("*/sasl2/libgssapiv2.so*")):
        return "kcat has no Kerberos (Debian: apt install libsasl2-modules-gssapi-mit)"
    return None


kcat_needed = pytest.mark.skipif(kcat_missing() is not None, reason=kcat_missing() or "")
"""Skips a test where kcat cannot use Kerberos."""


class Kdc:
    """A KDC, its `krb5.conf`, and keytabs of its principals."""

    def __init__(self, directory: Path, *, realm: str = REALM, lifetime_s: int = 3600) -> None:
        self.directory = directory
        self.realm = realm
        self.config = directory / "krb5.conf"
        (self.port,) = free_ports(1)
        values = {"realm": realm, "port": self.port, "host": HOST, "directory": directory}
        self.config.write_text(_CLIENT.format(**values, lifetime_s=lifetime_s))
        (directory / "kdc.conf").write_text(_SERVER.format(**values))
        (directory / "acl").touch()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables of programs in the realm."""
        return {"KRB5_CONFIG": str(self.config)}

    def start(self) -> None:
        """Make the database, and start the KDC."""
        self.run("kdb5_util", "create", "-s", "-r", self.realm, "-P", "master", "-W")
        self.start_again()

    def start_again(self) -> None:
        """Start the KDC, and wait until it listens."""
        with (self.directory / "kdc.out").open("ab") as log:
            self._process = subprocess.Popen(
                [_program("krb5kdc"), "-n", "-r", self.realm],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._listens, 30)

    def stop(self) -> None:
        """End the KDC."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def keytab(self, principal: str, file: Path | None = None) -> Path:
        """Add a principal with random keys; return its keytab."""
        found = file or self.directory / f"{principal.replace('/', '-')}.keytab"
        name = f"{principal}@{self.realm}"
        self.admin(f"addprinc -randkey {name}", f"ktadd -k {found} {name}")
        return found

    def admin(self, *commands: str) -> None:
        """Run commands of kadmin.local."""
        self.run("kadmin.local", "-r", self.realm, stdin="".join(f"{each}\n" for each in commands))

    def cache(self, principal: str, keytab: Path, *options: str) -> Path:
        """Make a cache with a ticket of a principal."""
        cache = self.directory / f"{principal}.cache"
        name = f"{principal}@{self.realm}"
        self.run("kinit", "-k", "-t", str(keytab), "-c", str(cache), *options, name)
        return cache

    def run(self, program: str, *arguments: str, stdin: str = "") -> str:
        """Run a program of Kerberos; return what it prints."""
        done = subprocess.run(
            [_program(program), *arguments],
            env=self._environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _environment(self) -> dict[str, str]:
        own = {"KRB5_KDC_PROFILE": str(self.directory / "kdc.conf")}
        return {**os.environ, **self.environment, **own}

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            assert self._process is not None
            assert self._process.poll() is None, (self.directory / "kdc.out").read_text()
            return False


def _program(name: str) -> str:
    found = shutil.which(name, path=_PATH)
    assert found is not None, f"{name} is missing"
    return found


@contextmanager
def realm(directory: Path, **settings: int) -> Iterator[Kdc]:
    """A running KDC; this process and its children are in its realm."""
    kdc = Kdc(directory, **settings)
    before = {name: os.environ.get(name) for name in kdc.environment}
    os.environ.update(kdc.environment)
    try:
        kdc.start()
        yield kdc
    finally:
        kdc.stop()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def module_line(principal: str, keytab: Path | str, **more: str) -> str:
    """Return a JAAS line with the keys of a principal."""
    options = {"keyTab": str(keytab), "principal": principal, **more}
    texts = " ".join(f'{name}="{value}"' for name, value in options.items())
    return f"{MODULE} required useKeyTab=true storeKey=true {texts};"


def service_properties(kdc: Kdc, listener: str, keytab: Path) -> Mapping[str, str]:
    """Return the properties of a listener with GSSAPI."""
    prefix = f"listener.name.{listener.lower()}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "GSSAPI",
        f"{prefix}.gssapi.sasl.jaas.config": module_line(f"{SERVICE}@{kdc.realm}", keytab),
        "sasl.kerberos.service.name": "kafka",
    }
