"""docs/kerberos.md, followed to the letter: with another realm, host, directory and other ports."""

import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from barnabas.testing.free_ports import free_ports
from compat_tests import jars, kdc
from compat_tests.kdc import HOST, REALM, Kdc
from compat_tests.page_reader import Page, Reader, new_reader

PAGE = Page.of("kerberos.md")
COMMANDS = PAGE.commands

pytestmark = [
    kdc.needed,
    jars.needed,
    pytest.mark.barnabas_only,
    kdc.kcat_needed,
]


@attrs.define
class RealmReader(Reader):
    """A reader whose realm, host and directory are those of the test."""

    def given(self, text: str) -> str:
        for ours, theirs in (
            (HOST, "broker.example.org"),
            (REALM, "EXAMPLE.ORG"),
            (f"{self.directory}/", "/etc/kafka/"),
            (f"{self.directory}/data", "/var/lib/kafka"),
        ):
            text = text.replace(theirs, ours)
        return super().given(text)


@pytest.fixture
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with kdc.realm(tmp_path_factory.mktemp("realm")) as found:
        yield found


@pytest.fixture
def reader(realm: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    option = f"-Djava.security.krb5.conf={realm.config}"
    monkeypatch.setattr(jars, "TOOL_OPTIONS", [*jars.TOOL_OPTIONS, option])
    monkeypatch.setenv("KRB5_KDC_PROFILE", str(realm.directory / "kdc.conf"))
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    names = ("9092", "9093", "9094")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    made = new_reader(PAGE, tmp_path, ports)
    found = RealmReader(made.page, made.directory, made.ports)
    yield found
    found.stop()


def test_page_from_keytabs_to_records(reader: Reader) -> None:
    install, build, *keytabs, form, serve, produce, consume, users, kcat = COMMANDS
    assert (install, build) == ("apt install libkrb5-dev gcc", "pip install 'barnabas[kerberos]'")
    assert len(keytabs) == 4
    for command in keytabs:
        reader.run(command)
    for name in ("server", "alice"):
        block = PAGE.block("properties", f"# {name}.properties\n")
        (reader.directory / f"{name}.properties").write_text(reader.given(block))
    reader.run(form)
    reader.run(f"{serve} --set listeners={reader.given(LISTENERS)}")
    reader.run(produce)
    assert "one castle\n" in reader.run(consume)
    assert reader.run(users).split() == ["USER", "MECHANISM", "ITERATIONS"]
    assert "one castle\n" in reader.run(kcat)
    between = PAGE.block("properties", "sasl.mechanism.inter.broker.protocol")
    assert between.split() == [
        "sasl.mechanism.inter.broker.protocol=GSSAPI",
        "sasl.mechanism.controller.protocol=GSSAPI",
    ]


LISTENERS = "PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093"
"""The listeners of the page, on this machine only."""
