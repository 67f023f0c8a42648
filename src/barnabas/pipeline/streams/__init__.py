"""Stream processing: operators on topics and tables, with the semantics of Kafka Streams.

What lives here: the operators that Spark does not have, as kernels, and what the public module
`barnabas.streams` is made of. What may not: HTTP, the state of jobs, transactions.

How data passes: a topic is a DataFrame, an operator makes a DataFrame of a DataFrame, and a
delivery writes the last one: forward, or in micro-batches where there is state.

    stream_app          topics in, queries out, one Spark session; stream_queries watches them
    app_hosting         an app in a runner, which watches its queries
    app_queries         rows, plans and starts of an app's queries
    operator_chains     records between two operators with state; app_chains: their queries
    repartition_topics  topics between queries: creation, and records that are no longer needed
    position_keeper     commits the positions of idle partitions again
    topic_reading       a topic as a DataFrame; stream_columns: names; known_topics: ids of topics
    serdes              bytes and columns; registry_serdes and row_values: schemas of a registry
    record_stream, record_table, grouped_stream     operators without state, and aggregates
    interval_joins, joined_tables                   joins of streams, and joins with tables
    folded_groups, kernel_frames                    aggregates by functions; rows for kernels
    window_specs        windows as values
    output_frames       rows in the columns of the deliveries
    state_directory     checkpoints of an app
    serde_codecs        serdes of one value, for views
    test_driver         topologies for tests, without Kafka
    topology_nodes, topology_operators  what App.describe prints; topology_text, topology_picture
    stop_signals        SIGINT and SIGTERM
    kernels             operators with state as pure functions, and the query that runs them
"""
