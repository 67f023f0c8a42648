"""MirrorMaker 2's formats and rules, as its topics, connectors and clients show them.

What lives here: the records of its topics, the names of topics, the translation of offsets. What
may not: the copy of records, and the job of a flow.

    replication_policies   names of remote topics and internal topics
    internal_records       bytes of heartbeats, checkpoints and offset syncs
    offset_translation     offset syncs, and offsets translated by them (sans-I/O)
    maker_topics           reads and writes its internal topics
    connectors             its three connectors, as REST shows them
    connector_properties   their properties
    maker_file             the file of connect-mirror-maker.sh
    maker_settings         the settings that these make
    source_positions       positions of its source tasks: taken over, and given back
    checkpoint_book        checkpoints to write (sans-I/O)
    checkpoint_job, heartbeat_job    jobs of two of the connectors; the third is a flow
    timed_job              the part that they have in common
"""
