"""The messages that Kafka stores as keys and values of records, and in files.

metadata_records: `__cluster_metadata`; group_records: `__consumer_offsets`; transaction_records:
`__transaction_state`; share_state_records: `__share_group_state`; remote_log_records:
`__remote_log_metadata`; control_records: control batches; file_messages: messages that are files of
their own. The records of consumer, share and streams groups have modules of their own, which
`group_records` imports when it meets such a record. A module here contains declarations only.
"""
