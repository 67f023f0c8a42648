"""Connections as streams of bytes: plain sockets and TLS, accepted ones and outgoing ones.

Those who use a stream know frames and requests; a stream knows neither.
"""
