"""Handlers of administration: brokers forward these requests to the controller."""
