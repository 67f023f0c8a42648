"""The metadata image and what builds it: records, deltas, snapshots, feature levels.

Records of `__cluster_metadata` are replayed into a `MetadataDelta`, which gives the next
`MetadataImage`. Every node replays the same records and gets the same image.
"""
