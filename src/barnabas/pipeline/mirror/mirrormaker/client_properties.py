"""The properties of TLS and SASL, as Apache Kafka 4.3.0 defines them for clients.

MirrorMaker 2's connectors have them without a prefix, for the clients of both clusters.
"""

from typing import Any, Final

from barnabas.pipeline.definitions.config_def import ConfigKey, Importance, Validator
from barnabas.pipeline.definitions.config_types import ConfigType
from barnabas.pipeline.definitions.config_validators import InRange, OneOf

UNUSED: Final = "It has no effect in barnabas."

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _key(
    name: str,
    kind: ConfigType,
    default: Any,
    text: str,
    importance: Importance,
    validator: Validator | None = None,
) -> ConfigKey:
    return ConfigKey(name, kind, default, importance, text, validator=validator)


TLS_KEYS: Final = (
    _key("ssl.protocol", ConfigType.STRING, "TLSv1.3", UNUSED, _MEDIUM),
    _key("ssl.provider", ConfigType.STRING, None, UNUSED, _MEDIUM),
    _key("ssl.cipher.suites", ConfigType.LIST, [], UNUSED, _LOW),
    _key("ssl.enabled.protocols", ConfigType.LIST, ["TLSv1.2", "TLSv1.3"], UNUSED, _MEDIUM),
    _key(
        "ssl.keystore.type",
        ConfigType.STRING,
        "JKS",
        "The format of the client's key store: JKS, PKCS12 or PEM.",
        _MEDIUM,
    ),
    _key(
        "ssl.keystore.location",
        ConfigType.STRING,
        None,
        "The file with the client's key and certificates.",
        _HIGH,
    ),
    _key(
        "ssl.keystore.password", ConfigType.PASSWORD, None, "The password of the key store.", _HIGH
    ),
    _key("ssl.key.password", ConfigType.PASSWORD, None, "The password of the client's key.", _HIGH),
    _key("ssl.keystore.key", ConfigType.PASSWORD, None, "The client's key in PEM.", _HIGH),
    _key(
        "ssl.keystore.certificate.chain",
        ConfigType.PASSWORD,
        None,
        "The client's certificates in PEM.",
        _HIGH,
    ),
    _key(
        "ssl.truststore.certificates",
        ConfigType.PASSWORD,
        None,
        "The certificates in PEM that the client trusts.",
        _HIGH,
    ),
    _key(
        "ssl.truststore.type",
        ConfigType.STRING,
        "JKS",
        "The format of the trust store: JKS, PKCS12 or PEM.",
        _MEDIUM,
    ),
    _key(
        "ssl.truststore.location",
        ConfigType.STRING,
        None,
        "The file with the certificates that the client trusts.",
        _HIGH,
    ),
    _key(
        "ssl.truststore.password",
        ConfigType.PASSWORD,
        None,
        "The password of the trust store.",
        _HIGH,
    ),
    _key("ssl.keymanager.algorithm", ConfigType.STRING, "SunX509", UNUSED, _LOW),
    _key("ssl.trustmanager.algorithm", ConfigType.STRING, "PKIX", UNUSED, _LOW),
    _key(
        "ssl.endpoint.identification.algorithm",
        ConfigType.STRING,
        "https",
        "https checks the name in the broker's certificate; an empty value does not.",
        _LOW,
    ),
    _key("ssl.secure.random.implementation", ConfigType.STRING, None, UNUSED, _LOW),
    _key("ssl.engine.factory.class", ConfigType.CLASS, None, UNUSED, _LOW),
)
SASL_KEYS: Final = (
    _key(
        "sasl.kerberos.service.name",
        ConfigType.STRING,
        None,
        "The name of the brokers' Kerberos service.",
        _MEDIUM,
    ),
    _key("sasl.kerberos.kinit.cmd", ConfigType.STRING, "/usr/bin/kinit", UNUSED, _LOW),
    _key("sasl.kerberos.ticket.renew.window.factor", ConfigType.DOUBLE, 0.8, UNUSED, _LOW),
    _key("sasl.kerberos.ticket.renew.jitter", ConfigType.DOUBLE, 0.05, UNUSED, _LOW),
    _key("sasl.kerberos.min.time.before.relogin", ConfigType.LONG, 60_000, UNUSED, _LOW),
    _key(
        "sasl.login.refresh.window.factor",
        ConfigType.DOUBLE,
        0.8,
        UNUSED,
        _LOW,
        validator=InRange(0.5, 1.0),
    ),
    _key(
        "sasl.login.refresh.window.jitter",
        ConfigType.DOUBLE,
        0.05,
        UNUSED,
        _LOW,
        validator=InRange(0.0, 0.25),
    ),
    _key(
        "sasl.login.refresh.min.period.seconds",
        ConfigType.SHORT,
        60,
        UNUSED,
        _LOW,
        validator=InRange(0, 900),
    ),
    _key(
        "sasl.login.refresh.buffer.seconds",
        ConfigType.SHORT,
        300,
        UNUSED,
        _LOW,
        validator=InRange(0, 3600),
    ),
    _key(
        "sasl.mechanism",
        ConfigType.STRING,
        "GSSAPI",
        "The mechanism of the login: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI.",
        _MEDIUM,
    ),
    _key(
        "sasl.jaas.config",
        ConfigType.PASSWORD,
        None,
        "The login, in the format of JAAS files.",
        _MEDIUM,
    ),
    _key("sasl.client.callback.handler.class", ConfigType.CLASS, None, UNUSED, _MEDIUM),
    _key(
        "sasl.login.callback.handler.class",
        ConfigType.CLASS,
        None,
        "Java's handlers of OAUTHBEARER are accepted for tokens of an issuer.",
        _MEDIUM,
    ),
    _key("sasl.login.class", ConfigType.CLASS, None, UNUSED, _MEDIUM),
    _key("sasl.login.connect.timeout.ms", ConfigType.INT, None, UNUSED, _LOW),
    _key("sasl.login.read.timeout.ms", ConfigType.INT, None, UNUSED, _LOW),
    _key("sasl.login.retry.backoff.max.ms", ConfigType.LONG, 10_000, UNUSED, _LOW),
    _key("sasl.login.retry.backoff.ms", ConfigType.LONG, 100, UNUSED, _LOW),
    _key(
        "sasl.oauthbearer.jwt.retriever.class",
        ConfigType.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "Java's retrievers of tokens for client credentials, and from files, are accepted.",
        _MEDIUM,
    ),
    _key(
        "sasl.oauthbearer.jwt.validator.class",
        ConfigType.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        UNUSED,
        _MEDIUM,
    ),
    _key("sasl.oauthbearer.scope", ConfigType.STRING, None, "The scope of tokens.", _MEDIUM),
    _key(
        "sasl.oauthbearer.client.credentials.client.id",
        ConfigType.STRING,
        None,
        "The id of the client at the issuer of tokens.",
        _MEDIUM,
    ),
    _key(
        "sasl.oauthbearer.client.credentials.client.secret",
        ConfigType.PASSWORD,
        None,
        "The secret of the client at the issuer of tokens.",
        _MEDIUM,
    ),
    _key(
        "sasl.oauthbearer.assertion.algorithm",
        ConfigType.STRING,
        "RS256",
        UNUSED,
        _MEDIUM,
        validator=OneOf(("ES256", "RS256"), ignores_case=True),
    ),
    _key("sasl.oauthbearer.assertion.claim.aud", ConfigType.STRING, None, UNUSED, _MEDIUM),
    _key(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        ConfigType.INT,
        300,
        UNUSED,
        _LOW,
        validator=InRange(0, 86400),
    ),
    _key("sasl.oauthbearer.assertion.claim.iss", ConfigType.STRING, None, UNUSED, _MEDIUM),
    _key(
        "sasl.oauthbearer.assertion.claim.jti.include", ConfigType.BOOLEAN, False, UNUSED, _MEDIUM
    ),
    _key(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        ConfigType.INT,
        60,
        UNUSED,
        _LOW,
        validator=InRange(0, 3600),
    ),
    _key("sasl.oauthbearer.assertion.claim.sub", ConfigType.STRING, None, UNUSED, _MEDIUM),
    _key("sasl.oauthbearer.assertion.file", ConfigType.STRING, None, UNUSED, _MEDIUM),
    _key("sasl.oauthbearer.assertion.private.key.file", ConfigType.STRING, None, UNUSED, _MEDIUM),
    _key(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        ConfigType.PASSWORD,
        None,
        UNUSED,
        _MEDIUM,
    ),
    _key("sasl.oauthbearer.assertion.template.file", ConfigType.STRING, None, UNUSED, _MEDIUM),
    _key("sasl.oauthbearer.scope.claim.name", ConfigType.STRING, "scope", UNUSED, _LOW),
    _key("sasl.oauthbearer.sub.claim.name", ConfigType.STRING, "sub", UNUSED, _LOW),
    _key(
        "sasl.oauthbearer.token.endpoint.url",
        ConfigType.STRING,
        None,
        "The address of the issuer of tokens, or of a file with a token.",
        _MEDIUM,
    ),
    _key("sasl.oauthbearer.jwks.endpoint.url", ConfigType.STRING, None, UNUSED, _MEDIUM),
    _key("sasl.oauthbearer.jwks.endpoint.refresh.ms", ConfigType.LONG, 3_600_000, UNUSED, _LOW),
    _key(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", ConfigType.LONG, 10_000, UNUSED, _LOW
    ),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", ConfigType.LONG, 100, UNUSED, _LOW),
    _key("sasl.oauthbearer.clock.skew.seconds", ConfigType.INT, 30, UNUSED, _LOW),
    _key("sasl.oauthbearer.expected.audience", ConfigType.LIST, [], UNUSED, _LOW),
    _key("sasl.oauthbearer.expected.issuer", ConfigType.STRING, None, UNUSED, _LOW),
    _key("sasl.oauthbearer.header.urlencode", ConfigType.BOOLEAN, False, UNUSED, _LOW),
)
