"""Principals: who is at the other end of a connection, as Kafka's `KafkaPrincipal` has it."""

from typing import Final

import attrs

USER: Final = "User"


@attrs.frozen
class Principal:
    """The identity that a connection has proved, such as `User:alice`.

    Two principals with the same type and name are equal, also when one of them was authenticated by
    a delegation token.
    """

    type: str
    name: str
    token_authenticated: bool = attrs.field(default=False, eq=False)

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """Return the principal of a text `Type:name`; the name may contain colons.

        Raises ValueError when the text has no colon.
        """
        kind, colon, name = text.partition(":")
        if not colon:
            raise ValueError(
                f"expected a string in format principalType:principalName but got {text}"
            )
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a connection that proved no identity."""

LOCAL_NODE: Final = Principal("Node", "local")
"""The node itself, in requests to its own controller that do not leave the process.

It is recognized by identity: a principal from outside that has the same type and name is another.
"""
