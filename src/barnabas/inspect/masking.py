"""What the inspector never shows.

Three rules: fields that are declared secret (SASL tokens, SCRAM salts and keys, delegation tokens'
HMACs); values of configuration whose name is a password of Kafka's or reads like one; and raw SASL
tokens outside of any message. A secret's size is told, nothing else.
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
# Fields whose value is a property's, and the fields beside them that name the property.
_VALUES = ("value", "config_value")
_NAMES = ("name", "config_name", "key")


def is_secret(field: Field) -> bool:
    """Whether a field is declared secret."""
    return field.secret


def hides(name: str, around: dict[str, Any]) -> bool:
    """Whether a field holds the value of a property whose name, beside it, is sensitive."""
    if name not in _VALUES:
        return False
    return around.get("is_sensitive") is True or any(
        isinstance(around.get(other), str) and is_sensitive(around[other]) for other in _NAMES
    )


@cache
def is_sensitive(property_name: str) -> bool:
    """Whether a property holds a secret: by Kafka's type for it, or by what its name says."""
    # A listener's own property has "listener.name.<listener>." before the name.
    return property_name.lower().endswith(_passwords()) or bool(_SENSITIVE.search(property_name))


@cache
def _passwords() -> tuple[str, ...]:
    from barnabas.config.properties import BROKER_PROPERTIES
    from barnabas.config.schema import Type

    return tuple(name for name, row in BROKER_PROPERTIES.items() if row.type is Type.PASSWORD)
