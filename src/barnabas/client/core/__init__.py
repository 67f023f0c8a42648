"""The client's sans-I/O parts: decisions without trio, clock, randomness, socket or file.

Contents: bytes of a connection, versions, SASL tokens, metadata, backoff, sequences, visible
records and the states of a group's member. The modules above this package drive them.
"""
