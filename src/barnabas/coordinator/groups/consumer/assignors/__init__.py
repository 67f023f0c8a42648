"""Who gets which partitions: the assignors that a coordinator may be told to use.

`base` says what an assignor is; `uniform` and `range` are Kafka's own two. Others are named by
their import path in `group.consumer.assignors`. An assignor sees values and gives one: no clock,
no random, no I/O, and the same group always gets the same answer.
"""
