"""Handlers of the data path: Produce, Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch."""
