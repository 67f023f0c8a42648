"""The settings of a Kerberos login: options of Java's `Krb5LoginModule`, and Kafka's properties.

The names are those of `com.sun.security.auth.module.Krb5LoginModule`. What concerns only Java's
prompts and caches is accepted without effect.
"""

from collections.abc import Mapping
from typing import Final

import attrs

GSSAPI: Final = "GSSAPI"
LOGIN_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE_NAME: Final = "sasl.kerberos.service.name"
WINDOW_FACTOR: Final = "sasl.kerberos.ticket.renew.window.factor"
JITTER: Final = "sasl.kerberos.ticket.renew.jitter"
MIN_TIME: Final = "sasl.kerberos.min.time.before.relogin"


class LoginOptionsError(ValueError):
    """The settings of a login cannot work."""


@attrs.frozen
class RenewalTimes:
    """The share of a ticket's life after which it is replaced, and the least time between."""

    window_factor: float = 0.8
    jitter: float = 0.05
    min_time_s: float = 60.0


@attrs.frozen
class KerberosLogin:
    """A principal with its keys, or a cache of tickets; and the name of the brokers' service.

    Without a `keytab`, the tickets are those of a cache, the default one where `ticket_cache` is
    None.
    """

    service: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None
    renewal: RenewalTimes = RenewalTimes()


def service_name(options: Mapping[str, str], configured: str | None) -> str:
    """Return the name of the service, of the login module or of the property.

    Raises LoginOptionsError when both or neither say it, as Kafka does.
    """
    of_module = options.get("serviceName")
    if of_module and configured and of_module != configured:
        raise LoginOptionsError(
            f"the login module has serviceName={of_module}, and {SERVICE_NAME} is {configured}; "
            "remove one of them"
        )
    found = of_module or configured
    if not found:
        raise LoginOptionsError(
            f"the first part of the brokers' principal is missing; set {SERVICE_NAME}, as "
            f"{SERVICE_NAME}=kafka for kafka/broker.example.org@EXAMPLE.ORG"
        )
    return found


def parse_login(
    options: Mapping[str, str], service: str, renewal: RenewalTimes | None = None
) -> KerberosLogin:
    """Return the login that the options of a login module describe. Raises LoginOptionsError."""
    keytab, cache = options.get("keyTab"), options.get("ticketCache")
    principal = options.get("principal")
    uses_keytab = _is_on(options, "useKeyTab")
    uses_cache = _is_on(options, "useTicketCache")
    if keytab and not uses_keytab:
        raise LoginOptionsError("keyTab has an effect only with useKeyTab=true; add it")
    if not uses_keytab and not uses_cache:
        raise LoginOptionsError(
            "there is no source of keys or tickets, and barnabas asks for no password; set "
            'useKeyTab=true storeKey=true keyTab="FILE" principal="PRINCIPAL", or '
            "useTicketCache=true"
        )
    if not uses_keytab:
        return KerberosLogin(service, principal, None, _path(cache), renewal or RenewalTimes())
    if not keytab or not principal:
        missing = "principal" if keytab else "keyTab"
        raise LoginOptionsError(
            f'useKeyTab=true needs {missing}; write it as keyTab="FILE" principal="PRINCIPAL"'
        )
    return KerberosLogin(service, principal, _path(keytab), None, renewal or RenewalTimes())


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _path(text: str | None) -> str | None:
    """Return a path without the `FILE:` that Java's options may have."""
    return None if text is None else text.removeprefix("FILE:")
