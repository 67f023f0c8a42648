"""Stream processing: operators on topics and tables, with the semantics of Kafka Streams.

What lives here: the operators that Spark does not have, as kernels, and what the public module
`barnabas.streams` is made of. What may not: HTTP, the state of jobs, transactions.

How data passes: a topic is a DataFrame, an operator makes a DataFrame of a DataFrame, and the
delivery `epochs` or `forward` writes the last one.

    kernels     operators with state as pure functions, and the query that runs them on Spark
"""
