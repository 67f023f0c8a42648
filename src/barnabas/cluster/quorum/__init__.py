"""The quorum of the metadata log: the Raft core, its messages, voters and persistent state."""
