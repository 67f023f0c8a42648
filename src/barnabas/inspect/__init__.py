"""The inspector: frames, batches and records as fields, each with its position.

- conversation: cuts the bytes of a connection into requests and their responses.
- frame_view: reads one frame into a tree of `Node`, with the construct form of the declarations.
- batch_view: reads record batches, and the records that Kafka itself stores.
- masking: hides credentials, secrets and passwords in configuration.
- capture: extracts connections from pcap and pcapng files.
- proxy: relays connections to a server and shows their frames.
- rendering: prints trees as text, with or without colours, and as JSON.

The inspector works with any Kafka server. Nothing that the server needs may live here. Data passes
one way: bytes -> conversation -> frame_view -> rendering.
"""
