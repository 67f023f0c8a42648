"""The classic rebalance protocol: members join, one of them assigns, all sync.

A group goes through the states of `classic_state` in rounds called generations. JoinGroup requests
wait until every member has joined or the rebalance timeout has passed. The leader gets all
subscriptions and sends the assignment with its SyncGroup, for which the others wait. The server
does not read the assignment: it is the clients' bytes.

- `classic_state`: the states and their transitions; `classic_group`, `classic_member`: the state;
- `classic_rebalance`: the phases and their timers; `classic_join`, `classic_membership`: requests;
- `classic_responses`: the responses; `classic_subscription`: topics in consumer subscriptions.

A GroupMetadata record is written when a generation is stable or empty, and when a static member
returns with a new id; only its replay makes the change. In between a group exists in memory only:
after a restart it has the state of its last record, and its members heartbeat or rejoin.
"""
