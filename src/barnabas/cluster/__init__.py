"""The quorum, the metadata and the replicas of a cluster; state machines without input or output.

`raft.py` agrees on a log, `controller.py` decides which metadata records go into it, `delta.py`
replays committed records over an `image.py`, and `replication.py` acts on what changed. They take
events, the time and randomness as arguments and return what to write and send; `server/quorum.py`
does the writing. `format.py`, `quorum_state.py` and `snapshot.py` know the files.
"""
