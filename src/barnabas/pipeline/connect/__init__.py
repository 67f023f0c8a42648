"""Connect as clients of Apache Kafka know it: REST, configurations, plug-ins, connectors.

What lives here: the definitions of configurations and their validation (`config_def`), the table of
plug-ins (`plugin_registry`), and the REST API. What may not: Spark, and anything that imports a
class named by a client: names are looked up in the table only.

How data passes: `connect_api` decodes a request, `connector_validation` checks its configuration
with the definitions of the plug-ins that it names, and `jobs` carries it out.
"""
