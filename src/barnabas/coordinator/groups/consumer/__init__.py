"""The consumer rebalance protocol (KIP-848): the coordinator assigns, members reconcile.

Three epochs tell how far a group is. The group epoch rises when something that assignments
depend on changes: members, subscriptions, the topics behind them. A target assignment is then
computed for that epoch. Each member is led to its part of it by its own heartbeats, first giving
up what it must, and gets partitions only once their former owners have given them up; when it is
there, its member epoch is the target's.

- `member`, `group`: what a group is, as replay builds it; `records`: what is written;
- `topics`: the cluster's topics as groups see them, with the metadata hash; `regex`;
- `assignors/`: who gets what; `reconciliation`: the next step of one member;
- `rebalance`: epochs and targets; `removal`: members that leave or die, and their timers;
- `heartbeat`: the protocol's one request; `describe`: what administrators see;
- `classic_members`, `migration`: members of the classic protocol in such a group, and groups that
  turn from one type to the other.

Kafka: GroupMetadataManager's consumer part. Only replay changes groups; decisions build records
from what is there.
"""
