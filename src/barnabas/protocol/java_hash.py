"""Java's hash of a string; some of Kafka's placements and orders depend on it."""


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 units, wrapping at 32 bits."""
    result = 0
    if text.isascii():
        for unit in text.encode():
            result = (31 * result + unit) & 0xFFFFFFFF
    else:
        encoded = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(encoded[::2], encoded[1::2], strict=True):
            result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result - 2**32 if result >= 2**31 else result
