"""Fuzzing for a given time: `make fuzz SECONDS=n`, a third on the codecs, on a node, on its logins.

`tests.fuzz` fuzzes the codecs (frames, messages, batches, each decompressor) in a separate process.
Then valid requests of every served api are encoded, damaged by a seeded generator (bytes flipped,
cut, repeated, numbers set to extremes) and sent over short connections. After each burst another
connection must answer within a second, the process must be alive, and its memory must stay below a
limit. The first failure prints the seed, which repeats the run. `login_fuzz` does the same to
listeners that ask for TLS or a login.
"""

import argparse
import random
import struct
import subprocess
import sys
import time
from pathlib import Path

from barnabas.protocol.apis import API
from barnabas.protocol.messages.metadata import MetadataRequest
from compat_tests import login_fuzz, wire
from compat_tests.servers import BarnabasProcess

BURST = 200
_PARTS = ["codecs", "node", "logins"]
RESIDENT_GROWTH_MAX = 200_000_000  # bytes
EXTREMES = [b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", bytes(4), b"\xff" * 10, b"\xff"]


def seeds() -> list[bytes]:
    """Return an empty request of every api at every version."""
    return [
        wire.request_frame(api.request_type(), version, 1)
        for api in API.values()
        for version in range(api.min_version, api.max_version + 1)
    ]


def damaged(chance: random.Random, frame: bytes) -> bytes:
    """Return the frame with one to four damages; the api key at its start mostly stays."""
    data = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(min(4, len(data) - 1), len(data)) if data else 0
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[at:]
            case 2:
                data[at:at] = data[at : at + chance.randrange(1, 50)]
            case 3:
                data[at : at + 4] = chance.choice(EXTREMES)
            case _:
                data[at:at] = chance.randbytes(chance.randrange(1, 30))
        if not data:
            return b""
    return bytes(data)


def burst(chance: random.Random, bootstrap: str, frames: list[bytes]) -> None:
    """Send damaged frames over a sequence of connections without reading responses."""
    for _ in range(BURST):
        with wire.Connection(bootstrap) as connection:
            try:
                for _ in range(chance.randint(1, 5)):
                    payload = damaged(chance, chance.choice(frames))
                    length = len(payload)
                    if chance.random() < 0.05:
                        length = chance.randrange(-(2**31), 2**31)
                    connection.socket.sendall(struct.pack(">i", length) + payload)
            except OSError:
                continue  # the server has closed the connection, as it must


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def run(seconds: float, seed: int) -> int:
    """Fuzz one node; return the number of connections. Raises on the first failure."""
    chance = random.Random(seed)
    frames = seeds()
    server = BarnabasProcess()
    connections = 0
    try:
        server.start()
        bystander = wire.Connection(server.bootstrap)
        bystander.socket.settimeout(1)
        before = resident_bytes(server.pid)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            burst(chance, server.bootstrap, frames)
            connections += BURST
            bystander.call(MetadataRequest(topics=[]), 4)
            grown = resident_bytes(server.pid) - before
            if grown > RESIDENT_GROWTH_MAX:
                raise MemoryError(f"the server grew by {grown} bytes")
        return connections
    except Exception:
        print(f"failed after {connections} connections with --seed {seed}", file=sys.stderr)
        print(server.log_tail(), file=sys.stderr)
        raise
    finally:
        server.close()


def run_logins(seconds: float, seed: int) -> int:
    """Fuzz what a node reads before authentication; return the number of connections."""
    deadline = time.monotonic() + seconds
    base: list[int] = []

    def check_memory(pid: int) -> None:
        base.append(resident_bytes(pid))
        if base[-1] - base[0] > RESIDENT_GROWTH_MAX:
            raise MemoryError(f"the server grew by {base[-1] - base[0]} bytes")

    def seconds_left() -> float:
        return deadline - time.monotonic()

    return login_fuzz.run(seconds_left, random.Random(seed), seeds(), damaged, check_memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--only", choices=_PARTS, help="all the time on one of them")
    options = parser.parse_args()
    parts = [options.only] if options.only else _PARTS
    seconds = options.seconds / len(parts)
    if "codecs" in parts:
        command = [sys.executable, "-m", "tests.fuzz", f"--seconds={seconds}"]
        subprocess.run([*command, f"--seed={options.seed}"], check=True)
    if "node" in parts:
        print(f"seed {options.seed}")
        connections = run(seconds, options.seed)
        print(f"{connections} connections with damaged requests, all withstood")
    if "logins" in parts:
        print(f"seed {options.seed}")
        connections = run_logins(seconds, options.seed)
        print(f"{connections} connections before authentication, all withstood")


if __name__ == "__main__":
    main()
