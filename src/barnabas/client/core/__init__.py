"""The client's sans-I/O parts: they decide, and know no trio, clock, randomness, socket or file.

What lives here: bytes of a connection, versions, SASL tokens, metadata, backoff, sequences, visible
records and the states of a group's member. The modules above this package drive them.
"""
