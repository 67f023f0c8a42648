"""Companions: processes that run beside a node, such as the schema registry.

Contents: when to start, restart and stop a companion (`companion_supervision`, sans-I/O), and the
processes themselves (`companion_process`). A companion is any command line; this package imports
no room that such a command runs. A companion that fails never stops the node.
"""
