"""The broker's own state machines: its registration, its heartbeats and its controlled shutdown.

They return requests to send to the controller. The shells in `server.quorum` send them.
"""
