"""The shells of the coordinators: which partitions they lead, their logs, timers and waiters.

`coordinator` decides. A shell appends the records of a decision, waits until they are committed,
and then sends the replies.
"""
