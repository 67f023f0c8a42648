"""The runner's process: the store, the active runner, the REST API and the engine, wired together.

What lives here: what a runner is made of, its start and its end. What may not: decisions, which
`jobs` and `rest` have.
"""
