"""The times after which a connection between nodes is given up.

After a cut of the network, TCP repeats its bytes less and less often, and a firewall may have
forgotten the connection, so that its ends wait for minutes. A new connection is there at once.
"""

from typing import Final

CONNECT_S: Final = 2.0
"""The longest wait for a new connection."""

SILENT_S: Final = 3.0
"""The longest silence on a connection whose requests are answered at once."""

COORDINATOR_REQUEST_S: Final = 10.0
"""The longest wait for markers and verifications: they may wait for a replica that leaves the ISR,
which takes the 9 s of a broker's session.
"""
