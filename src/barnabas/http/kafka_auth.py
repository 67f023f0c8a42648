"""Basic authentication against the users of a Kafka cluster: a SASL login at a broker.

Each check opens a connection to a broker, authenticates as the user and closes it. Credentials that
passed are remembered for a minute, so a user that was removed passes for that time.
"""

from typing import Final

import attrs
import trio

from barnabas.client import AuthenticationError, ClientConfig, ConnectionFailureError
from barnabas.client.broker_connection import open_connection
from barnabas.client.client_config import SaslSettings
from barnabas.client.failures import Address, MechanismRefusedError
from barnabas.config import ConfigError
from barnabas.http.authentication import (
    AccessUnavailableError,
    AuthenticationFailedError,
    parse_basic,
)
from barnabas.http.remembered_credentials import RememberedCredentials

_REMEMBERED_S: Final = 60.0
_LOGINS_AT_ONCE: Final = 8
_LOGIN_TIMEOUT_S: Final = 10.0


class KafkaAuth:
    """Checks user and password with the mechanism and the TLS settings of a client."""

    scheme = "basic"
    challenge = 'Basic realm="barnabas", charset="UTF-8"'

    def __init__(self, brokers: ClientConfig) -> None:
        if brokers.sasl is None:
            raise ConfigError(
                "authentication by Kafka needs a client that uses SASL: set security.protocol to "
                "SASL_SSL or SASL_PLAINTEXT, and sasl.mechanism to that of the users"
            )
        if brokers.sasl.login is not None or brokers.sasl.tickets is not None:
            raise ConfigError(
                "authentication by Kafka checks passwords, and sasl.mechanism="
                f"{brokers.sasl.mechanism} has none: set PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, "
                "or check tokens with --token-keys"
            )
        self._mechanism = brokers.sasl.mechanism
        self._brokers = attrs.evolve(
            brokers,
            connect_timeout_s=min(brokers.connect_timeout_s, _LOGIN_TIMEOUT_S),
            request_timeout_s=min(brokers.request_timeout_s, _LOGIN_TIMEOUT_S),
        )
        self._remembered = RememberedCredentials(_REMEMBERED_S)
        self._limiter = trio.CapacityLimiter(_LOGINS_AT_ONCE)

    async def principal(self, credentials: str) -> str:
        """Return the user's name.

        Raises AuthenticationFailedError, and AccessUnavailableError when no broker checks.
        """
        user, password = parse_basic(credentials)
        if not user or not password or "\0" in user + password:
            raise AuthenticationFailedError("wrong user or password")
        if not self._remembered.has(user, password):
            async with self._limiter:
                # Requests with the same credentials may have waited for one login.
                if not self._remembered.has(user, password):
                    await self._log_in(user, password)
                    self._remembered.add(user, password)
        return user

    async def _log_in(self, user: str, password: str) -> None:
        """Authenticate at the first broker that answers."""
        sasl = SaslSettings(self._mechanism, user, password)
        config = attrs.evolve(self._brokers, sasl=sasl)
        reason = "there are no brokers"
        for address in config.bootstrap:
            outcome = await _outcome(address, config)
            if outcome is None:
                return
            if isinstance(outcome, AuthenticationError) and not isinstance(
                outcome, MechanismRefusedError
            ):
                raise AuthenticationFailedError("wrong user or password")
            reason = str(outcome)
        raise AccessUnavailableError(f"no broker can check the credentials: {reason}")


async def _outcome(
    address: Address, config: ClientConfig
) -> AuthenticationError | ConnectionFailureError | None:
    """Return why a login failed, None when it succeeded."""
    failure: AuthenticationError | ConnectionFailureError | None = None
    async with trio.open_nursery() as nursery:
        try:
            connection = await open_connection(address, config, nursery)
        except (AuthenticationError, ConnectionFailureError) as error:
            failure = error
        else:
            connection.close()
    return failure
