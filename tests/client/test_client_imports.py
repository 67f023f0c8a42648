"""Imports of the client: nothing that its first call does not need."""

import subprocess
import sys


def test_client_import_loads_no_compression_http_or_admin_library() -> None:
    heavy = ("cramjam", "construct", "hypercorn", "starlette", "confluent_kafka", "asyncio")
    check = f"import sys, barnabas.client; print([n for n in {heavy} if n in sys.modules])"
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"
