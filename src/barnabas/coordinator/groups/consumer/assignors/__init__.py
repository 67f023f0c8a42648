"""The assignors that a coordinator may use: they decide who gets which partitions.

`assignor` has the interface; `uniform_assignor` and `range_assignor` are Kafka's two.
`group.consumer.assignors` names others by their import path. An assignor takes values and returns
one: no clock, no random, no I/O, and the same group always gets the same answer.
"""
