"""The server's side of SASL: one module for each mechanism, and the authenticator of a connection.

A mechanism takes the client's tokens and returns its own. The authenticator takes frames and
returns what the connection must send, and when it must close.
"""
