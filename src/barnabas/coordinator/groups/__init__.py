"""Group coordination: the state machines behind `__consumer_offsets`, with no input or output.

One `GroupShard` holds what one partition of `__consumer_offsets` says: the groups that hash to
it, of any type, and their committed offsets. An operation takes a request, who sent it, the time
and a token, and gives an `Output`: records to append, and replies to tokens. Records change
state only when they are replayed, on the leader right after the append and after a restart from
the log, so both see the same. What Kafka does not persist (who waits for a join, session
deadlines) lives beside it and is rebuilt on load.

- `shard`: the partition's groups, operations routed by group type, listing, deletion, expiry;
- `classic/`: the classic rebalance protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup);
- `consumer/`: the one in which the coordinator assigns (KIP-848), and migration between the two;
- `history`: why groups rebalanced, for people;
- `offsets`: committed offsets; `records`: what is written; `timers`: one heap of deadlines.

Nothing here reads a clock, rolls dice or knows sockets, files or partitions' logs: the server's
`groups` module appends, waits for the high watermark and sends the replies.
"""
