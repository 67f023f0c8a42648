"""Find bit rot before a consumer does: read every batch and check its crc.

Apache Kafka does not have this; there, a consumer's client finds the damage. The node runs it
slowly in a helper process (`barnabas.log.helper`); `barnabas log verify` runs it on a directory
that no node uses. Both bypass the page cache: memory may hold correct bytes when the disk does not,
and hot pages stay cached.
"""

from barnabas.log.scrubbing.scrub_check import Checked, check_log

__all__ = ["Checked", "check_log"]
