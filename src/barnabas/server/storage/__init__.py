"""Work on logs beside the loop: disk threads, helper processes, cleaning, moves, scrubbing.

This room decides when `log` does its work and in which thread or process. The work itself is in
`log`.
"""
