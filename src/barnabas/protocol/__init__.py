"""Kafka's wire protocol: bytes to messages and back.

What lives here: the declarations of all messages (`messages`, `records`), the codec compiled from
them (`codec`), the table of apis (`apis`), frames and headers (`frames`), record batches
(`records.batch`) and the error codes (`errors`). What may not: sockets, files, clocks, or any
meaning of a message beyond its bytes.

A message is a class whose fields are declared once (`fields`, `messages_base`). From that come the
readable construct form (`reference`, for tests and the inspector) and straight-line code for each
version, made when that version is first used.
"""
