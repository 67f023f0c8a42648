"""Sockets: listeners, connections, splitting bytes into frames, and sending.

A connection passes each frame to `server.api.dispatch` and sends the responses in request order.
Nothing here depends on a particular api.
"""
