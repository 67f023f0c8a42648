"""The data directories of a node: locks, identity, checkpoints, and moves of logs between them.

`LogManager` finds and opens the logs of all directories; a `Volume` is one directory. The contents
of a log are in `log.partition` and `log.segment`.
"""
