"""Connect's REST API: requests that create, change, validate and show jobs.

What lives here: routes, the handlers behind them, and requests that are forwarded to the active
runner. What may not: starting jobs, which is `jobs`'.

How data passes: `connect_api` decodes a request and finds its handler, `connector_service` checks
the configuration (`connect.connector_validation`) and writes it to the store of `jobs`, from which
the answers come as well.

    connect_api         the ASGI application; connect_calls: routes, calls and answers
    connector_handlers, runner_handlers, view_handlers    the handlers
    connector_service   what requests do to connectors
    java_routing        requests that concern Java's connectors
    request_forwarding  from a runner that stands by to the active one
    runner_loggers      levels of loggers under Connect's names
"""
