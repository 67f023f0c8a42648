"""The trio shells of the coordinators: which partitions they lead, their log, timers and waiters.

Decisions live in `coordinator`; a shell appends the records of a decision, waits for their commit
and then sends the replies.
"""
