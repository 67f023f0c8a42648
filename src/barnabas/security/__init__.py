"""Identity and permission: principals, operations, resources and decisions.

Everything here is pure: no sockets, no clocks, no trio. `server` asks it and acts on the answer.
"""
