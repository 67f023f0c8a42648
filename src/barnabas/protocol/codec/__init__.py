"""The compiled codec: straight-line Python, generated for one message and version on first use.

    layout    what a version of a message looks like, from its declarations
    decoding  source text of a reader: (data, pos) -> (message, end)
    encoding  source text of a writer: (message, append) appends chunks of bytes
    runtime   what the generated code calls

Adjacent fields of fixed width, with the length or count that follows them, are one `struct` call.
Readers are total: whatever the bytes, they return a message or raise ProtocolError, in time and
memory bounded by the bytes that are there.
"""

from barnabas.protocol.codec.decoding import Reader, make_reader
from barnabas.protocol.codec.encoding import Writer, make_writer
from barnabas.protocol.codec.runtime import Part, gathered

__all__ = ["Part", "Reader", "Writer", "gathered", "make_reader", "make_writer"]
