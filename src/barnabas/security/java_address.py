"""Addresses as `java.net.InetAddress.getHostAddress` prints them, which ACLs compare with."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address


@lru_cache(maxsize=1024)
def java_address(host: str) -> str:
    """Return an address in Java's form; any other text is returned unchanged.

    Java writes all eight groups of an IPv6 address, without leading zeros.
    """
    address, percent, zone = host.partition("%")
    try:
        parsed = ip_address(address)
    except ValueError:
        return host
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = parsed.exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone
