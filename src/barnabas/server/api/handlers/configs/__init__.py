"""Handlers that describe configurations: DescribeConfigs and ListConfigResources."""
