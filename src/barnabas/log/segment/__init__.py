"""The parts of a log: segment files, their indexes, leader epochs and producer state.

These parts do not depend on a whole log; `log.partition` combines them.
"""
