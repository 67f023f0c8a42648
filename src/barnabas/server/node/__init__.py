"""The node: wiring of its parts, start-up checks, process, and data directories."""
