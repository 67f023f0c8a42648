"""The metadata image and its sources: records, deltas, snapshots, feature levels.

Records of `__cluster_metadata` are replayed into a `MetadataDelta`, which makes the next
`MetadataImage`. Every node replays the same records and has the same image.
"""
