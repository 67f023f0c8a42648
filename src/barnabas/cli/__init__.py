"""The command line: `barnabas serve`, and tools that work against any Kafka server.

`main` finds the command and turns what fails into one line and an exit code; each command is a
module of its own, imported when it is called, and imports confluent-kafka and rich only then.
`clients` holds what commands share towards the server, `output` what they share towards the
person. `serve` alone starts a node; nothing else here touches the server's code.
"""
