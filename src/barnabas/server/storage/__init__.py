"""Work on logs beside the loop: disk threads, helper processes, cleaning, relocation, scrubbing.

Decides when `log` does its work and where that work runs; the work itself is in `log`.
"""
