"""The properties of a client that logs in with Kerberos (GSSAPI), as a `KerberosLogin`.

They have the names of Java's clients (options of the login module), or those of librdkafka
(`sasl.kerberos.keytab`, `sasl.kerberos.principal`). Without either, the tickets are those of the
default cache.
"""

from collections.abc import Callable, Mapping
from typing import Final

from barnabas.config import ConfigError
from barnabas.kerberos.login_options import (
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

KEYTAB: Final = "sasl.kerberos.keytab"
PRINCIPAL: Final = "sasl.kerberos.principal"
_SERVICE: Final = "kafka"


def kerberos_login(
    take: Callable[..., str | None], jaas: Mapping[str, str], *, needed: bool
) -> KerberosLogin | None:
    """Return the login that properties describe, None unless it is needed.

    `take` returns the value of the first of several names, which all count as known. Raises
    ConfigError.
    """
    keytab, principal, service = take(KEYTAB), take(PRINCIPAL), take(SERVICE_NAME)
    times = {each: take(each) for each in (WINDOW_FACTOR, JITTER, MIN_TIME)}
    if not needed:
        return None
    options = dict(jaas)
    if not options and keytab:
        options = {"useKeyTab": "true", "keyTab": keytab, "principal": principal or "kafkaclient"}
    elif not options:
        options = {"useTicketCache": "true"}
    try:
        name = service_name(options, service or options.get("serviceName") or _SERVICE)
        return parse_login(options, name, _renewal(times))
    except LoginOptionsError as error:
        where = "sasl.jaas.config" if jaas else KEYTAB
        raise ConfigError(f"Invalid value for {where}: {error}") from None


def _renewal(times: Mapping[str, str | None]) -> RenewalTimes:
    """Return the times of renewal. Raises ConfigError."""
    found = RenewalTimes()
    return RenewalTimes(
        _number(WINDOW_FACTOR, times[WINDOW_FACTOR], found.window_factor),
        _number(JITTER, times[JITTER], found.jitter),
        _number(MIN_TIME, times[MIN_TIME], found.min_time_s * 1000) / 1000,
    )


def _number(name: str, text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise ConfigError(f"Invalid value {text} for {name}: a number, 0 or more")
    return found
