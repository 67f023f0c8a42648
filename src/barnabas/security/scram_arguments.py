"""SCRAM credentials as texts: `SCRAM-SHA-256=[name=alice,password=secret]`.

The texts are those of `--add-scram` of `kafka-storage format` (Kafka's `ScramParser`).
"""

import base64
import binascii
from collections.abc import Callable

from barnabas.cluster.metadata.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_BY_NAME,
    ScramMechanism,
)
from barnabas.protocol.records.metadata_records import UserScramCredentialRecord


class ScramArgumentError(Exception):
    """A text that describes no credential; the message shows no password."""


def parse_scram_argument(text: str, new_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    """Return the record that a text describes; `new_salt` makes the salt where it states none.

    Takes milliseconds of CPU for a password. Raises ScramArgumentError.
    """
    text = text.strip()
    name, separator, config = text.partition("=")
    if not separator:
        raise ScramArgumentError("Failed to find equals sign in SCRAM argument")
    mechanism = SCRAM_BY_NAME.get(name)
    if mechanism is None:
        raise ScramArgumentError(
            f"The add-scram mechanism {name} is not supported. "
            f"Supported are {' and '.join(SCRAM_BY_NAME)}."
        )
    if not config.startswith("["):
        raise ScramArgumentError("Expected configuration string to start with [")
    if not config.endswith("]"):
        raise ScramArgumentError("Expected configuration string to end with ]")
    parts = dict(_component(part) for part in config[1:-1].split(","))
    return _record(mechanism, parts, new_salt)


def _record(
    mechanism: ScramMechanism, parts: dict[str, str], new_salt: Callable[[], bytes]
) -> UserScramCredentialRecord:
    user = parts.pop("name", None)
    if user is None:
        raise ScramArgumentError("You must supply 'name' to add-scram")
    stated_salt = parts.pop("salt", None)
    salt = None if stated_salt is None else _decoded(stated_salt, "salt")
    iterations = _iterations(parts.pop("iterations", None), mechanism)
    password = parts.pop("password", None)
    salted = parts.pop("saltedpassword", None)
    if password is None and salted is None:
        raise ScramArgumentError(
            "You must supply one of 'password' or 'saltedpassword' to add-scram"
        )
    if password is None and salt is None:
        raise ScramArgumentError("You must supply 'salt' with 'saltedpassword' to add-scram")
    if parts:
        raise ScramArgumentError(f"Unknown SCRAM configurations: {', '.join(sorted(parts))}")
    if salt is None:
        salt = new_salt()
    if password is not None:
        salted_password = mechanism.salted_password(password, salt, iterations)
    else:
        salted_password = _decoded(salted or "", "saltedPassword")
    return mechanism.credential(salt, salted_password, iterations).record(user, mechanism.code)


def _component(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ScramArgumentError("No equals sign found in a SCRAM component")
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        value = value[1:-1]
    return name, value


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramArgumentError(f"Failed to decode given {what}: it is not base64") from None


def _iterations(text: str | None, mechanism: ScramMechanism) -> int:
    if text is None:
        return ITERATIONS_MIN
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        raise ScramArgumentError(f"Failed to parse iterations count: {text}")
    iterations = int(text)
    if iterations < ITERATIONS_MIN:
        raise ScramArgumentError(
            f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using "
            f"{mechanism.name}"
        )
    if iterations > ITERATIONS_MAX:
        raise ScramArgumentError(
            f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using "
            f"{mechanism.name}"
        )
    return iterations
