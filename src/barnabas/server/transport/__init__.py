"""Sockets: accepting, connections, cutting bytes into frames, sending.

A connection gives each frame to `server.api.dispatch` and sends the answers in request order.
Nothing here knows an api.
"""
