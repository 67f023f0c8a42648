"""The Kerberos settings of a listener: for the clients that it accepts, and for a node's own login.

As in Kafka, one login module serves both. The node looks at the files (`kerberos.service_keys`).
"""

from typing import cast

import attrs

from barnabas.config import ConfigError, NodeConfig
from barnabas.config.listener_values import listener_property, listener_value
from barnabas.kerberos.login_options import (
    GSSAPI,
    JITTER,
    MIN_TIME,
    SERVICE_NAME,
    WINDOW_FACTOR,
    KerberosLogin,
    LoginOptionsError,
    RenewalTimes,
    parse_login,
    service_name,
)
from barnabas.security.jaas import LoginModule
from barnabas.security.kerberos_names import KerberosShortNames

RULES = "sasl.kerberos.principal.to.local.rules"
_JAAS = "sasl.jaas.config"


@attrs.frozen
class KerberosSettings:
    """A node's login at a listener, and the rules for the names of the listener's clients.

    `property_name` is where the login is configured.
    """

    login: KerberosLogin
    rules: tuple[str, ...]
    property_name: str


def kerberos_settings(config: NodeConfig, listener: str, module: LoginModule) -> KerberosSettings:
    """Return the settings of a listener with GSSAPI. Raises ConfigError."""
    name = listener_property(listener, _JAAS, GSSAPI)
    rules = cast("tuple[str, ...]", listener_value(config, listener, RULES))
    try:
        KerberosShortNames(rules, "")
    except ValueError as error:
        property_name = listener_property(listener, RULES)
        property_name = property_name if config.is_set(property_name) else RULES
        raise ConfigError(
            f"Invalid value {','.join(rules)} for configuration {property_name}: {error}",
            name=property_name,
        ) from None
    configured = listener_value(config, listener, SERVICE_NAME)
    try:
        service = service_name(module.options, str(configured) if configured else None)
        login = parse_login(module.options, service, _renewal(config, listener))
    except LoginOptionsError as error:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {name}: {error}", name=name
        ) from None
    return KerberosSettings(login, rules, name)


def service_keys(settings: KerberosSettings) -> tuple[str, str]:
    """Return the principal and the keytab of a listener. Raises ConfigError without a keytab."""
    login = settings.login
    if login.keytab is None or login.principal is None:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {settings.property_name}: a listener "
            "accepts clients with the keys of its service, and a cache of tickets has none; set "
            'useKeyTab=true storeKey=true keyTab="FILE" principal="SERVICE/HOST@REALM"',
            name=settings.property_name,
        )
    return login.principal, login.keytab


def _renewal(config: NodeConfig, listener: str) -> RenewalTimes:
    factor, jitter, least_ms = (
        listener_value(config, listener, each) for each in (WINDOW_FACTOR, JITTER, MIN_TIME)
    )
    return RenewalTimes(cast("float", factor), cast("float", jitter), cast("int", least_ms) / 1000)
