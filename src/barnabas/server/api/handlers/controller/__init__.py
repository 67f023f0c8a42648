"""Handlers of the active controller and of the metadata quorum."""
