"""The registry over HTTP: routes as a table, handlers that call the core, answers as JSON.

No I/O except Starlette's request and response. A handler is a plain function of a
:class:`~barnabas.registry.rest.rest_calls.RestCall`: what it returns is the answer, or the
decision that the backend appends first. How records are appended, and by whom, is the
``backend``'s matter (see ``service``).

Data passes one way: request -> ``request_paths`` (segments, context, alias) -> ``registry_routes``
(handler) -> handlers -> ``registry_app`` (answer).
"""
