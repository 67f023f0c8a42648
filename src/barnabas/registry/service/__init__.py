"""The registry as a process: ``_schemas`` in Kafka, one leader among instances, HTTP.

``schemas_topic`` creates, reads and appends to the topic. ``election_protocol`` (pure) and
``leadership`` choose the one instance that appends. ``registry_service`` is the backend of the
REST application: it decides at the end of the log, appends, and waits until the records are
replayed; what arrives at another instance goes to the leader through ``leader_forwarding``.
``registry_process`` wires them to a client and a listener.
"""
