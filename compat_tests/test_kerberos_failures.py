"""Failures of Kerberos: the sentences of a start, of a client and of the log of a node."""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from barnabas.client import AuthenticationError, ClientConfig, open_client
from barnabas.kerberos.login_options import KerberosLogin, RenewalTimes
from barnabas.kerberos.tickets import Tickets
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.testing.eventually import wait_until
from barnabas.testing.free_ports import free_ports
from compat_tests import kdc
from compat_tests.kdc import HOST, REALM, SERVICE, Kdc, module_line, service_properties
from compat_tests.servers import BarnabasProcess

pytestmark = [kdc.needed, pytest.mark.barnabas_only]

JAAS = "listener.name.sasl.gssapi.sasl.jaas.config"


@attrs.frozen
class Place:
    """A realm whose tickets last a few seconds, and a node in it."""

    kdc: Kdc
    service: Path
    alice: Path
    address: str
    node: BarnabasProcess


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with kdc.realm(tmp_path_factory.mktemp("realm")) as realm:
        service, alice = realm.keytab(SERVICE), realm.keytab("alice")
        (port,) = free_ports(1)
        node = BarnabasProcess(properties_of(realm, service, port))
        node.listeners += f",SASL://{HOST}:{port}"
        try:
            node.start()
            yield Place(realm, service, alice, f"{HOST}:{port}", node)
        finally:
            node.close()


def properties_of(realm: Kdc, service: Path, port: int) -> dict[str, str]:
    return {
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        **service_properties(realm, "SASL", service),
    }


def refusal_of_start(place: Place, line: str) -> str:
    """Return the line with which a node refuses to start with a JAAS line."""
    (port,) = free_ports(1)
    node = BarnabasProcess({**properties_of(place.kdc, place.service, port), JAAS: line})
    node.listeners += f",SASL://{HOST}:{port}"
    try:
        with pytest.raises(AssertionError) as refused:
            node.start()
    finally:
        node.close()
    (found,) = [text for text in str(refused.value).splitlines() if JAAS in text]
    assert f"Invalid value [hidden] for configuration {JAAS}: " in found
    return found


def test_start_is_refused_with_property_file_and_remedy(place: Place, tmp_path: Path) -> None:
    principal = f"{SERVICE}@{REALM}"
    missing = refusal_of_start(place, module_line(principal, tmp_path / "none.keytab"))
    assert f"{tmp_path}/none.keytab cannot be read: no such file or directory; correct" in missing
    other = refusal_of_start(place, module_line(principal, place.alice))
    assert f"{place.alice} has keys of alice@{REALM}, and none of {principal}; correct" in other
    foreign = refusal_of_start(place, module_line(f"{SERVICE}@OTHER.TEST", place.service))
    assert f"has keys of {principal}, and none of {SERVICE}@OTHER.TEST; correct" in foreign
    (tmp_path / "text").write_text("text")
    text = refusal_of_start(place, module_line(principal, tmp_path / "text"))
    assert f"{tmp_path}/text is not a keytab: it does not begin as a keytab does" in text
    cache = refusal_of_start(place, f"{kdc.MODULE} required useTicketCache=true;")
    assert "a cache of tickets has none; set useKeyTab=true storeKey=true keyTab=" in cache


def client(place: Place, login: KerberosLogin | None = None, **changes: str) -> ClientConfig:
    found = login or KerberosLogin("kafka", "alice", str(place.alice))
    properties = {
        "bootstrap.servers": place.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.keytab": found.keytab or "",
        "sasl.kerberos.principal": found.principal or "",
        **changes,
    }
    return ClientConfig.from_properties(properties)


def refusal(config: ClientConfig) -> str:
    """Return why a client cannot log in: one sentence."""

    async def ask() -> None:
        async with open_client(config) as found:
            await found.ask_any(MetadataRequest(topics=[]), MetadataResponse)

    with pytest.raises(AuthenticationError) as refused:
        trio.run(ask)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_client_says_why_it_has_no_ticket(place: Place, tmp_path: Path) -> None:
    def of(user: str, keytab: Path) -> str:
        return refusal(client(place, KerberosLogin("kafka", user, str(keytab))))

    none = of("dave", place.alice)
    assert f"the keytab {place.alice} has keys of alice@{REALM}, and none of dave@{REALM}" in none
    none = of("alice", tmp_path / "none.keytab")
    assert f"the keytab {tmp_path}/none.keytab cannot be read: no such file or directory" in none
    gone = place.kdc.keytab("gone")
    place.kdc.admin(f"delprinc -force gone@{REALM}")
    assert "the KDC does not know the client's principal; correct" in of("gone", gone)
    stale = place.kdc.keytab("stale")
    place.kdc.admin(f"cpw -randkey stale@{REALM}")
    assert "the keys in the keytab are not those of the KDC; write the keytab" in of("stale", stale)
    config = client(place, **{"sasl.kerberos.service.name": "queue"})
    assert "no login at queue/localhost: " in refusal(config)
    assert "the KDC does not know the service's principal" in refusal(config)
    foreign = place.kdc.directory / "foreign.keytab"
    foreign.write_bytes(place.alice.read_bytes().replace(b"CASTLE.TEST", b"OTHERS.TEST"))
    assert "krb5.conf names no KDC of the realm" in of("alice@OTHERS.TEST", foreign)


def test_client_says_that_its_cache_is_empty_or_has_expired(place: Place, tmp_path: Path) -> None:
    module = f'{kdc.MODULE} required useTicketCache=true ticketCache="FILE:{tmp_path}/none";'
    config = client(place, KerberosLogin("kafka"), **{"sasl.jaas.config": module})
    assert f"no ticket from the cache of tickets {tmp_path}/none: " in refusal(config)
    assert "run kinit, or use a keytab" in refusal(config)
    cache = place.kdc.cache("alice", place.alice, "-l", "1s")
    tickets = Tickets(KerberosLogin("kafka", None, None, str(cache)))
    found: list[str] = []

    def has_expired() -> bool:
        try:
            tickets.start(HOST)
        except Exception as error:
            found.append(str(error))
        return bool(found)

    wait_until(has_expired, 30)
    assert "expired" in found[0]
    assert "run kinit again" in found[0]


def refused_with(place: Place, login: KerberosLogin | None, text: str) -> None:
    """Log in until the node has logged the reason: it logs one line a second for an address."""

    def is_logged() -> bool:
        denied = refusal(client(place, login))
        assert "invalid credentials with SASL mechanism GSSAPI" in denied
        return text in place.node.log_tail(200)

    wait_until(is_logged, 30)


def test_log_of_the_node_says_why_a_client_is_refused(place: Place) -> None:
    keytab = place.kdc.keytab("bob/x/y")
    login = KerberosLogin("kafka", "bob/x/y", str(keytab))
    refused_with(place, login, "Malformed Kerberos name: bob/x/y@CASTLE.TEST")
    place.kdc.admin(f"cpw -randkey {SERVICE}@{REALM}")
    refused_with(place, None, "write the keytab again")
    # The node reads the keytab again: no restart is needed.
    place.kdc.admin(f"ktadd -k {place.service} {SERVICE}@{REALM}")


def test_tickets_are_renewed_before_their_end_and_survive_the_absence_of_the_kdc(
    place: Place,
) -> None:
    renewal = RenewalTimes(window_factor=0.0, jitter=0.0, min_time_s=0.0)
    tickets = Tickets(KerberosLogin("kafka", "alice", str(place.alice), None, renewal))
    tickets.start(HOST).step()
    first = tickets._credentials
    tickets.start(HOST).step()
    assert tickets._credentials is not first
    last = tickets._credentials
    place.kdc.stop()
    try:
        tickets.start(HOST).step()
        assert tickets._credentials is last
        new = client(place, **{"sasl.kerberos.ticket.renew.jitter": "0.01"})
        assert "no KDC of the realm answers; check krb5.conf and the network" in refusal(new)
    finally:
        place.kdc.start_again()
    patient = attrs.evolve(tickets.login, renewal=RenewalTimes())
    kept = Tickets(patient)
    kept.start(HOST)
    first = kept._credentials
    kept.start(HOST)
    assert kept._credentials is first


def with_other_clock(cache: Path, seconds: int) -> None:
    """Write to a cache that the KDC's clock is ahead: its users add it to theirs."""
    data = bytearray(cache.read_bytes())
    assert data[:4] == b"\x05\x04\0\x0c"  # version 4, and the difference as the only field
    data[8:12] = seconds.to_bytes(4, "big")
    cache.write_bytes(data)


def test_differing_clocks_are_said_by_client_and_node(place: Place) -> None:
    cache = place.kdc.cache("alice", place.alice)
    with_other_clock(cache, 600)
    module = f'{kdc.MODULE} required useTicketCache=true ticketCache="{cache}";'
    config = client(place, KerberosLogin("kafka"), **{"sasl.jaas.config": module})
    assert "no login at kafka/localhost: " in refusal(config)
    assert "differ by more than clockskew of krb5.conf allows; correct them (NTP)" in refusal(
        config
    )
    cache = place.kdc.cache("alice", place.alice)
    Tickets(KerberosLogin("kafka", None, None, str(cache))).start(HOST).step()  # for the cache
    with_other_clock(cache, 600)

    def is_logged() -> bool:
        assert "invalid credentials" in refusal(config)
        return "differ by more than clockskew" in place.node.log_tail(200)

    wait_until(is_logged, 30)
