"""Our streams beside Apache Kafka's: named topologies, generated input, compared output.

    StreamsPeer.java   the topologies of Kafka Streams, run by its TopologyTestDriver
    streams_peer       that JVM, driven by lines of JSON
    stream_cases       generated input: tombstones, late records, null keys, several partitions
    our_topologies     the same topologies with our kernels (`test_streams_parity`)

`test_streams_operators` compares operators of `barnabas.streams` on Spark, by the test driver, and
`test_streams_end_to_end` apps on a node.
"""
