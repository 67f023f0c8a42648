"""The logs in all data directories of a node, and moves of logs between directories.

`LogManager` finds and opens the logs. One directory is a `Volume` (`log.volume`), with its lock,
identity and checkpoints. The contents of a log are in `log.partition` and `log.segment`.
"""
