"""The quorum of the metadata log: the Raft core, its messages, voters and persistent state.

`metadata_loader` replays the log and its snapshots (`metadata_snapshot`, `image_snapshot`) into the
metadata image, the history of leader epochs and that of the voters.
"""
