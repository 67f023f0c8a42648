"""The messages: a module for each api with its request and its response, named as the api is.

Besides them stand the headers of requests and responses, and what clients put inside the bytes of
other messages (`consumer_protocol`, `streams_subscription`, `principal`). A module here declares,
and does nothing else. Nothing imports them all: `barnabas.protocol.apis` finds the one that is
needed.
"""
