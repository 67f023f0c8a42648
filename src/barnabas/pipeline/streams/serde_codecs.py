"""Serdes for single values in Python, as views and the test driver need them."""

from collections.abc import Callable
from typing import Any

import attrs

from barnabas.pipeline.streams.python_serdes import Custom
from barnabas.pipeline.streams.registry_serdes import SubjectSerde
from barnabas.pipeline.streams.serdes import (
    Bytes,
    Double,
    Float,
    Integer,
    Json,
    Long,
    Serde,
    Short,
    String,
    Uuid,
)
from barnabas.pipeline.streams.window_specs import Window, WindowKind
from barnabas.pipeline.views.live_view import Codec
from barnabas.pipeline.views.view_codecs import CODECS
from barnabas.pipeline.views.view_keys import KeyForm, ViewKeys

_NAMES: dict[type[Serde], str] = {
    Bytes: "bytes",
    String: "string",
    Uuid: "uuid",
    Short: "short",
    Integer: "integer",
    Long: "long",
    Float: "float",
    Double: "double",
    Json: "json",
}


@attrs.frozen
class FunctionCodec:
    """Functions of a user's serde, or of one with a schema registry."""

    read: Callable[[bytes], Any] | None
    write: Callable[[Any], bytes] | None

    def decode(self, data: bytes) -> Any:
        """Return the value of bytes. Raises ValueError when the serde only writes."""
        if self.read is None:
            raise ValueError("the serde has no function to decode: Custom needs decode=")
        return self.read(data)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value. Raises ValueError when the serde only reads."""
        if self.write is None:
            raise ValueError("the serde has no function to encode: Custom needs encode=")
        return self.write(value)


def codec_of(serde: Serde) -> Codec:
    """Return the codec of a serde. Raises ValueError for one without a form in Python."""
    if isinstance(serde, Custom):
        return FunctionCodec(serde.decode, serde.encode_with)
    if isinstance(serde, SubjectSerde):
        return FunctionCodec(serde.load, serde.dump)
    name = _NAMES.get(type(serde))
    if name is None:
        raise ValueError(f"{type(serde).__name__} cannot be read outside of Spark")
    return CODECS[name]


def keys_of(windows: Window | None) -> ViewKeys:
    """Return the form of keys with these windows."""
    if windows is None:
        return ViewKeys()
    if windows.kind is WindowKind.SESSION:
        return ViewKeys(KeyForm.SESSION)
    return ViewKeys(KeyForm.TIME_WINDOW, windows.size_ms)
