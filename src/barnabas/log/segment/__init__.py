"""What a log consists of: segment files, their indexes, leader epochs and producer state.

Nothing here knows a whole log or its configuration; `log.partition` puts these parts together.
"""
