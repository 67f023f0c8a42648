"""Metrics and the HTTP endpoint that serves them."""
