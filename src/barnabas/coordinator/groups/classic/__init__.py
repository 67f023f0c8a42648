"""The classic rebalance protocol: members join, one of them assigns, all sync.

A group runs through the states of `state` in rounds called generations. `JoinGroup` requests
wait until every member has joined or the rebalance timeout has passed; the leader gets all
subscriptions and sends the assignment with its `SyncGroup`, for which the others wait. What the
assignment holds is the clients' business: it is bytes here.

- `state`: the states and their transitions; `group`, `member`: what a group is;
- `rebalance`: the phases and their timers; `join`, `membership`: the requests;
- `responses`: the answers in one place.

A `GroupMetadata` record is written when a generation is stable or empty and when a static member
comes back with a new id; only its replay makes it so. In between a group lives in memory alone:
after a restart it stands where its last record left it, and its members heartbeat or rejoin.
"""
