"""Keys and values of PRINT as texts: decoded where they name a schema of the registry."""

from __future__ import annotations

import json
import logging
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.connect.registry_client import RegistryClient
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.converters.protobuf_files import types_of_text
from barnabas.registry.payloads.payload_codecs import PayloadError, PayloadSchema, codec_of
from barnabas.registry.payloads.wire_framing import FramingError, decode_indexes, split_payload

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.pipeline.data.registered_schemas import RegisteredSchema

    Decode = Callable[[bytes], Any]

logger: Final = logging.getLogger(__name__)

_BYTES_SHOWN_MAX: Final = 16_384
_SCHEMAS_MAX: Final = 1000
_UNPRINTED: Final = frozenset(map(chr, (*range(32), 127))) - {"\n", "\t"}


class PrintedValues:
    """Texts of keys and values of one topic."""

    def __init__(self, registry: str) -> None:
        """Take the address of the registry, or an empty text."""
        self._client = RegistryClient(registry) if registry else None
        self._decoders: dict[int, Decode | None] = {}

    def text(self, data: bytes | None) -> str:
        """Return a value by its schema as JSON, UTF-8 as text, other bytes as digits."""
        if data is None:
            return "<null>"
        return self._by_schema(data) or _text(data)

    def _by_schema(self, data: bytes) -> str | None:
        try:
            framed = split_payload(data)
        except FramingError:
            return None
        decode = None if framed.schema_id is None else self._decoder(framed.schema_id)
        if decode is None:
            return None
        try:
            found = json.dumps(decode(framed.data), ensure_ascii=False, default=str)
        except Exception as error:  # the libraries have no common type of their errors
            logger.debug("a record does not fit its schema id=%s: %s", framed.schema_id, error)
            return None
        if len(found) <= _BYTES_SHOWN_MAX:
            return found
        return f"{found[:_BYTES_SHOWN_MAX]}.. ({len(data)} bytes)"

    def _decoder(self, schema_id: int) -> Decode | None:
        """Return the decoder of a schema; None for an id that the registry does not know."""
        if self._client is None:
            return None
        if schema_id not in self._decoders and len(self._decoders) < _SCHEMAS_MAX:
            try:
                found = _decoder_of(self._client.schema_of(schema_id))
            except (ConnectError, PayloadError) as error:
                logger.debug("a schema cannot be used id=%s: %s", schema_id, error)
                found = None
            self._decoders[schema_id] = found
        return self._decoders.get(schema_id)


def _decoder_of(schema: RegisteredSchema) -> Decode:
    """Return what decodes data of a schema. Raises DataError, PayloadError."""
    if schema.schema_type == "PROTOBUF":
        return partial(_message, types_of_text(schema.text, schema.references))
    return codec_of(PayloadSchema(schema.schema_type, schema.text, schema.references)).decode


def _message(types: Any, data: bytes) -> Any:
    """Return a message of Protobuf, whose path in its file is before it."""
    path, content = decode_indexes(data)
    factory: Any = import_module("google.protobuf.message_factory")
    shown: Any = import_module("google.protobuf.json_format")
    message = factory.GetMessageClass(types.descriptor(types.name_at(path)))()
    message.ParseFromString(content)
    return shown.MessageToDict(message, preserving_proto_field_name=True)


def _text(data: bytes) -> str:
    shown = data[:_BYTES_SHOWN_MAX]
    more = "" if len(shown) == len(data) else f".. ({len(data)} bytes)"
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        return f"0x{shown.hex()}{more}"
    return (f"0x{shown.hex()}" if _UNPRINTED & set(text) else text) + more
