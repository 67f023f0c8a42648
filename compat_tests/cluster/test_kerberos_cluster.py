"""Three nodes that log in at each other with Kerberos, while their tickets and sessions end."""

from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from barnabas.testing.eventually import wait_until
from barnabas.testing.process import ClusterProcess
from compat_tests import kdc
from compat_tests.cluster.replicated_topics import (
    PARTITIONS,
    create_replicated,
    restart_leader,
    wait_until_in_sync,
)
from compat_tests.cluster.secured import USERS, Security

pytestmark = kdc.needed

NODE = "kafka/127.0.0.1"
LIFETIME_S = 20
SESSION_MS = 4000


def test_nodes_log_in_with_tickets_of_a_keytab(tmp_path: Path) -> None:
    """A node is killed and comes back; tickets and sessions are renewed several times meanwhile."""
    security = Security(tmp_path)
    with kdc.realm(tmp_path, lifetime_s=LIFETIME_S) as realm:
        line = kdc.module_line(f"{NODE}@{realm.realm}", realm.keytab(NODE))
        nodes = security.kerberos_nodes(line) | {
            "connections.max.reauth.ms": str(SESSION_MS),
            "sasl.kerberos.ticket.renew.window.factor": "0.15",
            "sasl.kerberos.min.time.before.relogin": "0",
        }
        data, client = tmp_path / "data", security.sasl_client()
        with ClusterProcess(
            3, data, nodes, replicates_topics=True, users=USERS, client=client
        ) as cluster:
            admin = AdminClient({**cluster.client_config(), "log_level": 0})
            create_replicated(admin, "t")
            restart_leader(cluster, admin, "t")
            logins = issued(realm)
            wait_until(lambda: issued(realm) >= logins + 2 * len(cluster.nodes), 60)
            producer = Producer({**cluster.client_config(), "acks": "all"})
            for partition in range(PARTITIONS):
                producer.produce("t", b"v", partition=partition)
            assert producer.flush(60) == 0
            wait_until_in_sync(admin, "t")
            logs = "".join(line for node in cluster.nodes.values() for line in node.log)
    assert "Traceback" not in logs
    assert str(realm.directory / "kafka-127.0.0.1.keytab") not in logs


def issued(realm: kdc.Kdc) -> int:
    """Return how many first tickets the KDC has issued to nodes."""
    lines = (realm.directory / "kdc.log").read_text().splitlines()
    return sum("AS_REQ" in line and "ISSUE" in line and NODE in line for line in lines)
