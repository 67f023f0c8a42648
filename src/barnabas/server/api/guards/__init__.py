"""The authorization of apis that name resources: one guard for each api, by families.

A guard takes the request, its context and the api's handler. It answers what the sender may not
do, passes the rest to the handler, and removes from the response what the sender may not see. The
rules and the order of the checks are those of Kafka's `KafkaApis` and `ControllerApis`. Guards are
imported by a node with an authorizer; the routes of any other node lead to the handlers.
"""
