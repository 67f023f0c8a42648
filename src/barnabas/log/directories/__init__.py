"""The data directories that hold the logs: locks, identity, checkpoints, relocation between them.

`LogManager` opens and finds logs over all directories; a `Volume` is one directory. Knows nothing
of what a log contains: that is `log.partition` and `log.segment`.
"""
