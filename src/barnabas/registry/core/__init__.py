"""The registry's state machine: what ``_schemas`` holds, and what a request does to it.

Decide, then replay: a request is decided against the state and gives records and an answer;
only replaying records changes the state, on the leader and after a restart alike. Everything
here is pure: no clock, no network, no file. ``rest`` turns requests into calls of
:class:`~barnabas.registry.core.registry_core.RegistryCore`, ``service`` appends the records
and replays what it reads.

Data passes one way: ``schema_entities`` (values) <- ``topic_records`` (their bytes in
``_schemas``) <- ``registry_state`` (replay) <- ``schema_queries``, ``registration``,
``subject_removal``, ``subject_settings`` (decisions) <- ``registry_core``.
"""
