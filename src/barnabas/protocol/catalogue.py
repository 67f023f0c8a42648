"""All declared messages, for tools and documentation; importing them is slow."""

from importlib import import_module
from pkgutil import iter_modules

import barnabas.protocol.messages
import barnabas.protocol.records
from barnabas.protocol.messages_base import Message


def messages() -> list[type[Message]]:
    """Return every message of Kafka 4.3: those of the apis, then those of records and files."""
    found: list[type[Message]] = []
    for package in (barnabas.protocol.messages, barnabas.protocol.records):
        for info in iter_modules(package.__path__):
            module = import_module(f"{package.__name__}.{info.name}")
            found += [
                value
                for value in vars(module).values()
                if isinstance(value, type)
                and issubclass(value, Message)
                and value.__module__ == module.__name__
            ]
    return found
