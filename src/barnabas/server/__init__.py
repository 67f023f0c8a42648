"""The trio shell: sockets, connections, dispatch, handlers and the node that holds them together.

Bytes arrive in `connection`, are cut into frames by `frames`, decoded and routed by `dispatch` to
a handler in `handlers`, and the response leaves gathered through a stream of `barnabas.sockets`.
`node` assembles the parts and stops them in order; `disk` runs in threads what may block. State
machines live in `barnabas.cluster` and `barnabas.coordinator`: here is only what moves their
inputs and outputs.
"""
