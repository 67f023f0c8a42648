"""Planning: a plan of analysis onto `barnabas.streams`, which has all operators.

    column_structs   keys and values as structs of columns
    simple_texts     texts as values of simple types
    json_texts       JSON, by ksqlDB's lenient rules
    delimited_texts  DELIMITED
    registry_schemas the schemas that are registered for columns
    fitting_schemas  the schemas of a subject that fit columns
    registry_columns AVRO, PROTOBUF, PROTOBUF_NOSR, JSON_SR
    registry_inference  the columns of registered schemas, for statements without columns
    sql_serdes       the serde of a source's key and value, for each format
    source_reading   a source as a stream or a table, and the columns of its names
    expression_columns  expressions as columns of Spark
    join_planning    joins
    fold_planning    aggregates as folds in Python
    group_planning   GROUP BY
    first_offsets    where a query begins that reads what comes after its statement
    query_planning   a whole plan to a stream or a table
    query_writing    the result to its topic

Here Spark is used, but not started.
"""
