"""Several nodes on one machine, each in a separate process: `barnabas serve --nodes N`.

Contents: who the nodes are (`group_plan`), the values of new topics (`group_defaults`), the
directories (`group_directories`), and the parent process that starts, watches and stops them
(`group_process`). The parent serves no clients and holds no data: a node is the process that
`barnabas serve` runs.
"""
