"""Handlers of cluster metadata: ApiVersions, Metadata, DescribeCluster."""
