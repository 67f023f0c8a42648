"""Looking at Kafka's bytes: frames, batches and records as fields, each with its place.

    conversation  the bytes of a connection, cut into requests and responses that belong together
    frames        one frame as a tree of `Node`, read with the construct form of the declarations
    batches       record batches inside of it, and the records that Kafka keeps for itself
    masking       what is never shown: credentials, secrets, passwords in configuration
    capture       connections out of pcap and pcapng files
    proxy         connections that pass through here on their way to a server
    rendering     trees as text, coloured or not, and as JSON

It works in front of any Kafka server, and needs nothing of ours. What may not live here: anything
that the server needs. Data passes one way: bytes -> conversation -> frames -> rendering.
"""
