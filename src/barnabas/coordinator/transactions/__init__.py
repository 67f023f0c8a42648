"""Transaction coordination: the state machine behind `__transaction_state`, sans-I/O.

A `TransactionShard` holds the transactional ids that hash to one partition of the topic. As with
groups, an operation decides and gives an `Output`; only replaying its records changes state, on
the leader right after the append and after a restart alike. What must happen outside once the
records are committed, markers in the partitions of an ended transaction, leaves as an effect
(`SendMarkers`), and its outcome comes back as an operation.

- `state`: the states, which may follow which, and what EndTxn means in each, as tables;
- `transaction`: one transactional id's data, and how each transition changes it;
- `records`: to and from the log's records; `markers`: which markers are outstanding;
- `judgement`: what is refused, and why; `listing`: what administrators ask for;
- `shard`: the operations; `settings`: what they obey.

Nothing here reads a clock, makes producer ids or knows where partitions live.
"""
