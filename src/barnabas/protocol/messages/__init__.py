"""The messages: one module for each api, with its request and response and named after the api.

Other modules declare the headers of requests and responses, and what clients put inside fields of
other messages (`consumer_protocol`, `streams_subscription`, `principal`). A module here contains
declarations only. Nothing imports all of them: `barnabas.protocol.apis` imports the module of an
api when it is needed.
"""
