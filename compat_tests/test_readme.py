"""The README's examples, run unchanged except for the server's address."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests import spark

README = Path(__file__).parent.parent / "README.md"


def example(name: str) -> str:
    """Return the README's Python block whose first line names the example."""
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(f"# example: {name}\n")]
    return found


def run(name: str, bootstrap: str) -> str:
    code = example(name)
    assert "127.0.0.1:9092" in code
    done = subprocess.run(
        [sys.executable, "-c", code.replace("127.0.0.1:9092", bootstrap)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=spark.environment(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example_works(bootstrap) -> None:
    assert "hello from the castle" in run("python", bootstrap)


@pytest.mark.timeout(300)
@spark.needed
def test_the_spark_example_works(bootstrap, admin) -> None:
    assert run("spark", bootstrap).split()[-1] == "1000"
    admin.delete_topics(["squares"])["squares"].result(30)
