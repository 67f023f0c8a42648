"""Group coordination: the state machines behind `__consumer_offsets`, without input or output.

One `GroupShard` has the state of one partition of `__consumer_offsets`: the groups that hash to it,
of any type, and their committed offsets. An operation takes a request, its sender, the time and a
token, and returns an `Output`: records to append, and replies to tokens. Records change state only
when they are replayed, on the leader right after the append and after a restart from the log, so
both see the same state. State that Kafka does not persist (waiting joins, session deadlines) is
kept beside it and is built again on load.

- `group_shard`: the partition's groups, operations by group type, listing, deletion, expiry;
- `classic/`: the classic rebalance protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup);
- `consumer/`: the protocol in which the coordinator assigns (KIP-848), and migration;
- `committed_offsets`: the offsets; `offset_and_group_records`: their records;
- `rebalance_history`: the last causes of rebalances; `group_settings`: the settings.

Nothing here reads a clock, a random number, a socket or a file. `server.coordinators` appends the
records, waits until they are committed and sends the replies.
"""
