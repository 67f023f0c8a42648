"""The measured times of the modules of `make compat`."""

import subprocess
import sys
from pathlib import Path

from compat_tests.module_times import ModuleTime, below, cpu_s, parse_stat, table

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


def test_stat_has_the_parent_and_all_cpu_time() -> None:
    numbers = " ".join(["0"] * 9 + ["100", "20", "3", "77"] + ["0"] * 30)
    parent, seconds = parse_stat(f"12 (a name) (x) S 7 {numbers}")
    assert parent == 7
    assert seconds == 200 / 100


def test_descendants_are_found_at_any_depth() -> None:
    assert below(1, {2: 1, 3: 2, 4: 3, 5: 9, 9: 0}) == {2, 3, 4}


def test_running_and_ended_processes_count() -> None:
    before = cpu_s()
    subprocess.run([sys.executable, "-c", BUSY], check=True, timeout=120)
    ended = cpu_s() - before
    assert ended >= 0.3
    program = f"{BUSY}\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        assert cpu_s() - before >= ended + 0.25  # its time has a resolution of 10 ms
        running.communicate(b"\n", timeout=120)


def test_table_has_long_modules_by_cpu_time_and_the_end_of_each_process() -> None:
    times = [
        ModuleTime("test_a.py", "gw0", 100.0, 30.0, 5.0),
        ModuleTime("test_b.py", "gw1", 100.0, 5.0, 40.0),
        ModuleTime("test_short.py", "gw1", 105.0, 2.0, 1.0),
    ]
    lines = [line.split() for line in table(times)[1:]]
    assert lines == [
        ["40.0", "5.0", "0", "gw1", "test_b.py"],
        ["5.0", "30.0", "0", "gw0", "test_a.py"],
        ["5.0", "30.0", "gw0", "1", "modules"],
        ["41.0", "7.0", "gw1", "2", "modules"],
    ]


def test_modules_of_a_run_are_in_its_table(tmp_path: Path) -> None:
    for name in ("first", "second"):
        text = f"def test_{name}() -> None:\n    sum(range(100))\n"
        (tmp_path / f"test_{name}.py").write_text(text)
    (tmp_path / "conftest.py").write_text(
        "from compat_tests import module_times\n"
        "module_times._SHOWN_MIN_S = 0\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(module_times.ModuleTimes())\n"
    )
    options = ["-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile"]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--rootdir={root}", str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.partition("times of modules")[2]
    assert all(f"test_{name}.py" in shown for name in ("first", "second")), done.stdout
    assert shown.count(" modules\n") == 2
