"""The trio shell of the metadata quorum: Raft I/O, the controller's host, and metadata publishing.

Decisions live in `cluster.quorum` and `cluster.controller`; files of the metadata log are here.
"""
