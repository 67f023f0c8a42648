"""Kafka's wire protocol: bytes to messages and back.

What lives here: the declarations of all messages (`messages`, `records`), the codec compiled from
them (`codec`), the table of apis (`apis`), frames and headers (`framing`), record batches
(`batches`) and the error codes (`errors`). What may not: sockets, files, clocks, or any meaning of
a message beyond its bytes.

A message is a class whose fields are declared once (`fields`, `messages_base`). The readable
construct form (`reference`, for tests and the inspector) and the straight-line code of each version
are made from it; the code is compiled on the version's first use.
"""
