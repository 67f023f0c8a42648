"""Child processes: companions of a node, such as the schema registry, and nodes of a group.

Contents: when to start, restart and stop a process (`companion_supervision`, sans-I/O), one child
process (`supervised_process`), and the companions of a node (`companion_process`). A companion is
any command line; this package imports no room that such a command runs. A companion that fails
never stops the node.
"""
