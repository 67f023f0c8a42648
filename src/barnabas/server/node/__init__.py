"""The node: wiring of its parts, start-up checks, its process, data directories and log lines."""
