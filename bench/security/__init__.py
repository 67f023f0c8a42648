"""The cost of security: `python -m bench.security` compares TLS, logins and ACLs with Apache Kafka.

`servers` starts both servers with the same keys and listeners, `rows` measures one server,
`__main__` takes both in turn and prints the table. Nothing here is a test.
"""
