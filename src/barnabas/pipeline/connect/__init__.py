"""Connect's side of a job: plug-ins, connectors, configurations, and the way of one record.

What lives here: the table of plug-ins (`plugin_registry`), the connectors that come with barnabas,
the validation of configurations (`connector_validation`), and the chain of converters and
transformations with the handling of its errors (`record_chain`, `error_handling`). What may not:
Spark, HTTP requests of users (`rest`), the state of jobs (`jobs`), and anything that imports a
class named by a client: names are looked up in the table only.

How data passes: a delivery gives bytes of a topic to a `RecordChain` and gets a `SinkRecord`, or
gives a connector's `SourceRecord` and gets bytes. A record that fails becomes a dead letter, or
ends the task, as the configuration says.
"""
