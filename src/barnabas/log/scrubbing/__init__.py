"""Bit rot is looked for before somebody needs the records: every batch is read, its crc checked.

Kafka has nothing like it: a consumer's client is the first to notice there. The node has it done
in a helper process (`python -m barnabas.log.scrubbing`), slowly; `barnabas log verify` does it to a
directory that no node uses. Both read the disk, past the page cache: what consumers are served from
memory may be sound when the disk's copy is not, and hot pages stay where they are.
"""

from barnabas.log.scrubbing.scrub_check import Checked, check_log

__all__ = ["Checked", "check_log"]
