"""Transaction coordination: the state machine behind `__transaction_state`, sans-I/O.

A `TransactionShard` has the transactional ids that hash to one partition of the topic. As with
groups, an operation decides and returns an `Output`; only replaying its records changes state, on
the leader right after the append and after a restart alike. The markers of an ended transaction are
an effect, `SendMarkers`, which goes out when the records are committed; their outcome returns as an
operation.

- `transaction_state`: the states, their transitions, and the meaning of EndTxn in each, as tables;
- `transaction`: one transactional id's data, and how each transition changes it;
- `transaction_log_records`: the records; `pending_markers`: markers without an answer;
- `marker_requests`, `verification_batches`: markers for, and verifications from, other brokers;
- `transaction_validation`: refusals; `transaction_listing`: descriptions for administrators;
- `transaction_shard`: the operations; `transaction_settings`: the settings.

Nothing here reads a clock, creates producer ids or knows where partitions are.
"""
