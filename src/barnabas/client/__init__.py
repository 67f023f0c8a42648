"""A small Kafka client on trio: for the registry, mirrors, the console and peers of a cluster.

What lives here: connections to brokers, the metadata of a cluster, an idempotent producer, reading
partitions, a few admin calls, and membership in classic groups with a protocol of the caller. What
may not: anything that another room than `protocol`, `config`, `key_stores` and `kerberos` knows.

How data passes: a caller's request goes through `kafka_client` (which broker, when to try again),
`connection_pool` and `broker_connection` (trio) to `core.wire_exchange` (bytes). The parts that
decide are sans-I/O and live in `core`:

    wire_exchange        requests to bytes, bytes to responses, correlation
    api_negotiation      the version of each api that both sides speak
    sasl_exchange        tokens of PLAIN, SCRAM and OAUTHBEARER (GSSAPI: `kerberos_exchange`)
    token_login          the source of a token for OAUTHBEARER
    metadata_cache       brokers, topics, leaders
    retry_backoff        delays between attempts
    producer_sequences   sequences, epochs, and what an answer means for a batch
    fetched_records      from a Fetch response to the records that a consumer sees
    group_membership     the states of a member of a classic group

`failures` names what can go wrong. `open_client` opens no connection before the first call, and
compression is imported with the first compressed batch.
"""

from barnabas.client.client_config import ClientConfig
from barnabas.client.failures import (
    Address,
    AuthenticationError,
    BrokerGoneError,
    BrokerSilentError,
    CallTimeoutError,
    ClientError,
    ConnectionFailureError,
    DeliveryError,
    MalformedResponseError,
    TlsError,
    UnsupportedVersionError,
)
from barnabas.client.kafka_client import KafkaClient, open_client
from barnabas.client.producer import NewRecord, Producer
from barnabas.client.record_reader import RecordReader

__all__ = [
    "Address",
    "AuthenticationError",
    "BrokerGoneError",
    "BrokerSilentError",
    "CallTimeoutError",
    "ClientConfig",
    "ClientError",
    "ConnectionFailureError",
    "DeliveryError",
    "KafkaClient",
    "MalformedResponseError",
    "NewRecord",
    "Producer",
    "RecordReader",
    "TlsError",
    "UnsupportedVersionError",
    "open_client",
]
