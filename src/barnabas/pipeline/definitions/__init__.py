"""Definitions of configurations, as Kafka's `ConfigDef`: properties, their types and validators.

What lives here: how a property is declared, parsed, validated and shown. What may not: imports of
other rooms. Connectors, converters and transformations declare their properties with these classes.

    config_def         properties, and the validation of a configuration
    config_types       types of values, and how they are parsed
    config_validators  validators, with the messages of Apache Kafka
"""
