"""The shells of the metadata quorum: Raft I/O, controller, broker lifecycle, publisher, files.

Decisions are in `cluster.quorum`, `cluster.controller` and `cluster.broker`; nothing here decides.
Other parts of the node use the `ControllerChannel`, the `MetadataPublisher` and the
`BrokerIdentity`.
"""
