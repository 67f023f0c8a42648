"""The compiled codec: straight-line Python, generated for one message version on its first use.

`layout` resolves the declarations for one version. `decoding` generates the source of a reader,
(data, pos) -> (message, end); `encoding` generates the source of a writer, (message, append), which
appends chunks of bytes. `runtime` holds the functions that generated code calls.

Adjacent fields of fixed width, with the length or count that follows them, are one `struct` call.
For any bytes, a reader returns a message or raises ProtocolError, in time and memory bounded by the
bytes that are present.
"""

from barnabas.protocol.codec.decoding import Reader, make_reader
from barnabas.protocol.codec.encoding import Writer, make_writer
from barnabas.protocol.codec.runtime import Part, gathered

__all__ = ["Part", "Reader", "Writer", "gathered", "make_reader", "make_writer"]
