"""Spark's inside, which a version of Spark may change, is touched in one module."""

import re
from pathlib import Path

import barnabas

ROOT = Path(barnabas.__file__).parent
HOME = "spark_internals.py"
INSIDE = re.compile(r"\._(?:jvm|jsc|jdf|jsq|jsparkSession|gateway|accumulatorServer)\b")


def test_inside_of_spark_is_touched_in_one_module() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted(ROOT.rglob("*.py"))
        for line in path.read_text().splitlines()
        if path.name != HOME and INSIDE.search(line) and "self._jvm" not in line
    ]
    assert found == []
    (home,) = ROOT.rglob(HOME)
    assert INSIDE.search(home.read_text())
