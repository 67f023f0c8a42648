"""Client properties for librdkafka and for Spark's Java consumer, from the names of either.

A job's properties may be written for Java (`sasl.jaas.config`, `ssl.truststore.location`) or for
librdkafka (`sasl.username`, `ssl.ca.location`). Stores in JKS or PKCS12 stay files for Java and
become PEM for librdkafka. The driver converts; tasks get the result.
"""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.client.client_config import ClientConfig, SaslSettings, TlsSettings
from barnabas.client.client_stores import JavaStore
from barnabas.client.core.token_login import HANDLER, HANDLERS, LOGIN_MODULE, URL, TokenLogin
from barnabas.config import ConfigError
from barnabas.kerberos.login_options import LOGIN_MODULE as KERBEROS_MODULE
from barnabas.kerberos.login_options import SERVICE_NAME, KerberosLogin
from barnabas.pipeline.delivery.plan.librdkafka_tokens import token_settings
from barnabas.pipeline.delivery.plan.worker_plan import POLL_RECORDS_MAX, TRANSACTION_TIMEOUT_MS

# Security has different names in the two clients, so it is converted through ClientConfig.
_SECURITY: Final = ("security.", "sasl.", "ssl.", "enable.ssl.")
# When no broker answers, librdkafka 2.16 forgets all brokers and starts again from the bootstrap
# servers. Calls of a transaction that wait for the coordinator then hang until their timeout.
_STABLE_BROKERS: Final = {"metadata.recovery.strategy": "none"}
# Once librdkafka knows the brokers, it leaves the bootstrap connection, and makes the next one only
# after half of this time: 50 ms by default, for each new client.
_EARLY_CONNECTION: Final = {"reconnect.backoff.ms": "20"}
# Java's names that librdkafka has under another name, and those that it has no use for.
_RENAMED: Final = {
    "max.request.size": "message.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "auto.offset.reset": "auto.offset.reset",
}
_BUFFER_BYTES: Final = "buffer.memory"
_TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
_POLL_RECORDS: Final = "max.poll.records"
_JAVA_ONLY: Final = frozenset(
    {
        _BUFFER_BYTES,
        _POLL_RECORDS,
        "max.block.ms",
        "default.api.timeout.ms",
        "partition.assignment.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "interceptor.classes",
    }
)
SPARK_READER: Final = {"fetch.max.wait.ms": "1", "max.poll.records": "10000"}
"""Properties of the consumers of Spark's tasks, where a job does not set others.

A task reads up to an offset that is known. After each poll Spark's source asks for the first and
the last offset of the partition, on the connection on which the consumer has sent its next fetch:
the answers come after that of the fetch. So a fetch must not wait, and polls must be few.
"""
_SERIALIZERS: Final = (
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
)
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the properties under librdkafka's names: texts, or a callback for a token.

    Raises ConfigError.
    """
    config = ClientConfig.from_properties(properties)
    found: dict[str, Any] = (
        _STABLE_BROKERS
        | _EARLY_CONNECTION
        | {
            _RENAMED.get(name, name): value
            for name, value in properties.items()
            if not name.startswith(_SECURITY)
            and name not in _JAVA_ONLY
            and name not in _SERIALIZERS
        }
    )
    if _BUFFER_BYTES in properties:
        kilobytes = -(-_count(properties, _BUFFER_BYTES) // 1024)
        found.setdefault("queue.buffering.max.kbytes", str(kilobytes))
    return found | _protocol(config) | _rdkafka_sasl(config.sasl) | _rdkafka_tls(config.tls)


def poll_records_max(properties: Mapping[str, str]) -> int:
    """Return the largest number of records that a consumer returns at once. Raises ConfigError."""
    if _POLL_RECORDS not in properties:
        return POLL_RECORDS_MAX
    return _count(properties, _POLL_RECORDS)


def transaction_timeout_ms(properties: Mapping[str, str]) -> int:
    """Return the time after which the broker aborts a transaction. Raises ConfigError."""
    if _TRANSACTION_TIMEOUT not in properties:
        return TRANSACTION_TIMEOUT_MS
    return _count(properties, _TRANSACTION_TIMEOUT)


def _count(properties: Mapping[str, str], name: str) -> int:
    text = properties[name]
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{name}={text} is not a number of at least 1")
    return int(text)


def for_spark(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka source (`kafka.*`, Java's names). Raises ConfigError."""
    found = for_java(properties)
    # Spark sets these three itself and refuses them as options.
    for name in ("auto.offset.reset", "group.id", "enable.auto.commit"):
        found.pop(name, None)
    return {f"kafka.{name}": value for name, value in found.items()}


def for_java(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties under the names of Java's clients. Raises ConfigError."""
    config = ClientConfig.from_properties(properties)
    found = {
        name: value
        for name, value in properties.items()
        if not name.startswith(_SECURITY) and name not in _SERIALIZERS
    }
    return found | _protocol(config) | _java_sasl(config.sasl) | _java_tls(config.tls)


def _protocol(config: ClientConfig) -> dict[str, str]:
    name = "SSL" if config.tls is not None else "PLAINTEXT"
    if config.sasl is not None:
        name = f"SASL_{name}"
    return {"security.protocol": name}


def _rdkafka_sasl(sasl: SaslSettings | None) -> dict[str, Any]:
    if sasl is None:
        return {}
    if sasl.login is not None:
        return token_settings(sasl.login)
    if sasl.tickets is not None:
        raise ConfigError(
            "sasl.mechanism=GSSAPI: the librdkafka of confluent-kafka has no Kerberos; use another "
            "mechanism here, or Java's clients"
        )
    if sasl.is_token:
        raise ConfigError(
            "sasl.jaas.config has tokenauth=true: librdkafka cannot authenticate with a delegation "
            "token; use a password here, or Java's clients"
        )
    return {
        "sasl.mechanism": sasl.mechanism,
        "sasl.username": sasl.username,
        "sasl.password": sasl.password,
    }


def _java_sasl(sasl: SaslSettings | None) -> dict[str, str]:
    if sasl is None:
        return {}
    if sasl.login is not None:
        return {"sasl.mechanism": sasl.mechanism, **_java_tokens(sasl.login)}
    if sasl.tickets is not None:
        return {"sasl.mechanism": sasl.mechanism, **_java_tickets(sasl.tickets.login)}
    module = _LOGIN_MODULES[sasl.mechanism]
    options = f"username={_quoted(sasl.username)} password={_quoted(sasl.password)}"
    if sasl.is_token:
        options += ' tokenauth="true"'
    return {
        "sasl.mechanism": sasl.mechanism,
        "sasl.jaas.config": f"{module} required {options};",
    }


def _java_tokens(login: TokenLogin) -> dict[str, str]:
    """Return what clients from Kafka 3.4 to 4.3 have: credentials in the login module."""
    options = {
        "clientId": login.client_id or None,
        "clientSecret": login.client_secret or None,
        "scope": login.scope,
    }
    texts = [f" {name}={_quoted(text)}" for name, text in options.items() if text is not None]
    return {
        "sasl.jaas.config": f"{LOGIN_MODULE} required{''.join(texts)};",
        HANDLER: HANDLERS[0],
        URL: login.url,
    }


def _java_tickets(login: KerberosLogin) -> dict[str, str]:
    """Return the login module with a keytab, or with a cache of tickets."""
    options = {
        "keyTab": login.keytab,
        "ticketCache": login.ticket_cache,
        "principal": login.principal,
    }
    texts = [f" {name}={_quoted(text)}" for name, text in options.items() if text is not None]
    source = "useKeyTab=true storeKey=true" if login.keytab else "useTicketCache=true"
    return {
        "sasl.jaas.config": f"{KERBEROS_MODULE} required {source}{''.join(texts)};",
        SERVICE_NAME: login.service,
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _rdkafka_tls(tls: TlsSettings | None) -> dict[str, str]:
    if tls is None:
        return {}
    tls = tls.opened()
    found = {
        "ssl.ca.location": tls.ca_file,
        "ssl.ca.pem": tls.ca_text,
        "ssl.certificate.location": tls.certificate_file,
        "ssl.certificate.pem": tls.certificate_text,
        "ssl.key.location": tls.key_file,
        "ssl.key.pem": tls.key_text,
        "ssl.key.password": tls.key_password,
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "none",
        "enable.ssl.certificate.verification": "true" if tls.verify else "false",
    }
    return {name: value for name, value in found.items() if value is not None}


def _java_tls(tls: TlsSettings | None) -> dict[str, str]:
    if tls is None:
        return {}
    tls.opened()  # a store that cannot be read is refused here, and not by Java in a task
    found = {
        "ssl.truststore.location": tls.ca_file,
        "ssl.truststore.certificates": tls.ca_text,
        "ssl.truststore.type": "PEM" if tls.ca_file or tls.ca_text else None,
        "ssl.key.password": tls.key_password,
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "",
    }
    if tls.key_text and tls.certificate_text:
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.key"] = tls.key_text
        found["ssl.keystore.certificate.chain"] = tls.certificate_text
    elif tls.key_file:
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.location"] = tls.key_file
    found |= _java_store(tls.trust_store) | _java_store(tls.key_store)
    return {name: value for name, value in found.items() if value is not None}


def _java_store(store: JavaStore | None) -> dict[str, str | None]:
    if store is None:
        return {}
    start = f"ssl.{store.side}"
    return {
        f"{start}.location": store.location,
        f"{start}.type": store.kind,
        f"{start}.password": store.password,
    }
