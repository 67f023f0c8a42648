"""Compaction: of each key only the last record stays (Kafka's `LogCleaner`).

`plan` decides in the node which log needs it and up to where; `cleaner` does the work on records
in the helper process (`python -m barnabas.log.compaction`), which reads segments and writes
`.cleaned` files beside them; `swap` puts those in place, in an order that a kill at any moment
does not harm. Between the two go JSON lines: paths and numbers, never records.
"""
