"""Secrets that the inspector never shows.

Three kinds: fields that are declared secret (SASL tokens, SCRAM salts and keys, HMACs of delegation
tokens); values of configuration properties that Kafka declares as passwords or whose name suggests
one; raw SASL tokens without a message around them. Only the size of a secret is shown.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.protocol.fields import Field

_SENSITIVE = re.compile(
    r"passw|passphrase|secret|jaas|credential|private|keystore\.key|\bhmac\b|token$|access\.?key",
    re.IGNORECASE,
)
# Fields that hold a property's value, and the sibling field that names the property.
_VALUES = ("value", "config_value")
_NAMES = ("name", "config_name", "key")


def is_secret(field: Field) -> bool:
    """True when a field is declared secret."""
    return field.secret


def hides(name: str, around: dict[str, Any]) -> bool:
    """True when a field holds the value of a sensitive property; a sibling field names the
    property.
    """
    if name not in _VALUES:
        return False
    return around.get("is_sensitive") is True or any(
        isinstance(around.get(other), str) and is_sensitive(around[other]) for other in _NAMES
    )


@cache
def is_sensitive(property_name: str) -> bool:
    """True when a property is a secret: by Kafka's type, or by its name."""
    # A listener's property has the prefix "listener.name.<listener>.".
    return property_name.lower().endswith(_passwords()) or bool(_SENSITIVE.search(property_name))


@cache
def _passwords() -> tuple[str, ...]:
    from barnabas.config.properties import BROKER_PROPERTIES
    from barnabas.config.schema import Type

    return tuple(name for name, row in BROKER_PROPERTIES.items() if row.type is Type.PASSWORD)
