"""The command line: `barnabas serve`, and tools that work against any Kafka server.

`main` runs a command and reports an error as one line and an exit code. Each command is a module,
imported when it is called; it imports confluent-kafka and rich only then. `client_options` has the
connections to a server, `terminal_output` the output. Only `serve` may import the server's code.
"""
