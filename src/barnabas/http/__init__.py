"""The companion's HTTP host: Hypercorn on trio, and what every HTTP room of barnabas shares.

Contents: listening, TLS, basic and bearer authentication, the body limit, metrics, health, error
bodies and request log lines, and the process that runs an application beside a node. An
application is any ASGI application that a room gives. This package imports only the protocol, the
configuration, the client and the validation of tokens.

How data passes: `http_server` accepts a connection, which has limits until it is authenticated
(`unauthenticated_connections`); Hypercorn reads a request, `hosted_app` checks it, the room's
application answers; the response passes `hosted_app` again, which counts and logs it. `http_host`
puts these parts together.

Hypercorn, Starlette, joserfc and bcrypt are in the extra `registry` and imported when used;
`optional_packages` names what is missing in one line.
"""

from barnabas.http.asgi import Application, Body, ErrorBody, json_error
from barnabas.http.authentication import principal_of
from barnabas.http.first_caller import first_caller_headers
from barnabas.http.http_host import HttpStartError, bind_listener, serve_app
from barnabas.http.http_settings import (
    HTTP_PROPERTIES,
    BearerSettings,
    CrossOrigin,
    HttpOptions,
    HttpSettings,
    HttpTls,
    ListenAddress,
)
from barnabas.http.optional_packages import MissingPackageError

__all__ = [
    "HTTP_PROPERTIES",
    "Application",
    "BearerSettings",
    "Body",
    "CrossOrigin",
    "ErrorBody",
    "HttpOptions",
    "HttpSettings",
    "HttpStartError",
    "HttpTls",
    "ListenAddress",
    "MissingPackageError",
    "bind_listener",
    "first_caller_headers",
    "json_error",
    "principal_of",
    "serve_app",
]
