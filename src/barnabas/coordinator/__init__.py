"""Coordinators as state machines without I/O: groups with their offsets, and transactions.

An operation takes a request, the time and a token, and returns an `Output`: records to append and
replies to tokens. State changes only by replaying records, on the leader and after a restart alike.
Nothing here reads a clock, a socket or a file; `server.coordinators` has the shells.
"""
