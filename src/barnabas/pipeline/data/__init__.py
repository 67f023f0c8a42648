"""Connect's data: schemas, values, records, converters, transformations and predicates.

What lives here: pure functions and classes over values. What may not: Spark, trio, files, sockets
and clocks. Spark starts a Python process per core and each of them imports this package, so it
stays quick to import: a converter or transformation is imported when a job names it.

How data passes: a converter turns bytes into a schema and a value, a transformation takes a
`ConnectRecord` and returns another one or None, a converter turns the result into bytes again.

    records            records on their way through a job, and headers
    connect_errors     errors with the names of Java's classes
    connect_schema     schemas and structs
    registered_schemas schemas as a registry has them, and how a converter calls one
    key_partitioner    the partition that Java's producer chooses for a key
    java_values        values that Python lacks: narrow numbers, points in time
    converters         bytes to data and back
    transforms         Connect's single message transformations
    record_predicates  conditions under which a transformation applies

A value is None, bool, int, float, str, bytes, Decimal, list, dict, `Struct` or one of
`java_values`. A schema may be absent: then the value's own type is all there is.
"""
