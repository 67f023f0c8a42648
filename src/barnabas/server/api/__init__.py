"""From a frame to a response: the api registry, dispatch, request context, error responses."""
