"""The metadata image, and what makes it: records, deltas, feature levels.

Records of `__cluster_metadata` are replayed into a `MetadataDelta`, which makes the next
`MetadataImage`. Every node replays the same records and has the same image.
"""
