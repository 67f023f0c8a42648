"""The messages that Kafka stores as keys and values of records, and in files.

    metadata_records     `__cluster_metadata`
    group_records        `__consumer_offsets`; it imports the records of consumer, share and streams
                         groups when it decodes one
    transaction_records  `__transaction_state`
    share_state_records  `__share_group_state`
    remote_log_records   `__remote_log_metadata`
    control_records      control batches
    file_messages        producer snapshots and `quorum-state`

A module here contains declarations only; `coordinator_framing` decodes them.
"""
