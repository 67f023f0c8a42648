"""Handlers about the metadata quorum."""
