"""Parts of barnabas that need an extra, where its packages are missing."""

import subprocess
import sys

import pytest

_SUBMIT = "from barnabas.cli.main import main; sys.argv[1:] = ['pipelines', 'submit']; main()"


@pytest.mark.parametrize(
    ("package", "program", "remedy"),
    [
        ("pyarrow", "import barnabas.streams", "pyarrow is missing: pip install 'barnabas[spark]'"),
        ("sqlglot", "import barnabas.sql", "is missing: pip install 'barnabas[spark,sql]'"),
        ("pyarrow", _SUBMIT, "pyarrow: pip install 'barnabas[spark]'"),
    ],
    ids=["streams", "sql", "submit"],
)
def test_package_that_is_missing_is_named_with_its_extra(
    package: str, program: str, remedy: str
) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; {program}"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr.endswith(f"{remedy}\n")
