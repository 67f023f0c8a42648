"""Decisions by a cluster's ACLs outside of its nodes: for the registry and for Connect's REST API.

A Kafka client reads the ACLs with DescribeAcls (`cluster_acls`); the authorizer of `security`
decides, as it does in a node.
"""
