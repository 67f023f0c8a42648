"""The way of a request from this node to the active controller, and of the response back.

    controller_channel   the port that every sender uses: a message goes in, its response comes out
    local_controller     the end that this node's own controller answers
    remote_controller    the connections to the controller of another node
    quorum_channel       finds the active controller, chooses the end, and retries

A sender (a handler, the lifecycle, a coordinator) takes a `ControllerChannel`; only the node
creates a `QuorumControllerChannel`. The channel gets the leader by a callable and the requests of
clients by their context. Nothing here knows the quorum, a handler or what a request means.
"""
