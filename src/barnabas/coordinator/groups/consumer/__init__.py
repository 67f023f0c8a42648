"""The consumer rebalance protocol (KIP-848): the coordinator assigns, members reconcile.

Three epochs show how far a group is. The group epoch rises when something changes that assignments
depend on: members, subscriptions, or the topics behind them. The coordinator then computes a target
assignment for that epoch. Heartbeats move each member to its part of the target: first it revokes
partitions, then it gets new ones as soon as their former owners have released them. The member
epoch becomes the target's epoch when the member is there.

- `consumer_member`, `consumer_group`: the state, as replay builds it; `consumer_records`;
- `subscribed_topics`: the cluster's topics as groups see them, with the metadata hash;
- `subscription_counts`, `regex_subscriptions`: who subscribes to what;
- `assignors/`: who gets what; `reconciliation`: the next step of one member;
- `target_assignment`: epochs and targets; `member_removal`: leaving, fencing, expiry, timers;
- `consumer_heartbeat`: the protocol's one request; `consumer_group_description`: the description;
- `classic_protocol_members`, `migration`: members of the classic protocol in such a group, and
  groups that change from one type to the other.

Kafka: GroupMetadataManager's consumer part. Only replay changes groups; decisions build records
from the present state.
"""
