"""Record batches, and the messages that Kafka keeps as the keys and values of records.

batch, compression    batches as bytes: headers, checks, records, codecs
metadata              what `__cluster_metadata` holds
groups                what `__consumer_offsets` holds: `classic_groups` and, read when they are
                      met, `consumer_groups`, `share_groups`, `streams_groups`
transactions, shares  what `__transaction_state` and `__share_group_state` hold
control               the records of control batches
remote_log            what `__remote_log_metadata` holds
files                 messages that stand in files of their own
"""
