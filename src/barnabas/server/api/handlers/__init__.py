"""The handlers of apis, in one package per family; `api.registry` says which api has which.

A handler takes a `RequestContext` and the decoded request. It returns the response, or awaits
first, or returns a `Deferred`, or None for no response. A KafkaError that it raises becomes the
api's error response. Its module is imported with the first request for one of its apis.
"""
