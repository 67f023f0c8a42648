"""Handlers that describe the cluster: ApiVersions, Metadata, DescribeCluster."""
