"""kcat from the shell: list, produce, consume and look up offsets."""

import json
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("kcat") is None, reason="kcat is not on the PATH (Debian: apt install kcat)"
)


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    command = ["kcat", "-b", bootstrap, *arguments]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_cluster_and_its_topics_are_listed(bootstrap, topics) -> None:
    topic = topics.create("kcat-list", partitions=3)
    listed = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))
    assert [broker["name"] for broker in listed["brokers"]] == [bootstrap]
    (described,) = listed["topics"]
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    assert topic in kcat(bootstrap, "-L")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_pass_through(bootstrap, topics, codec) -> None:
    topic = topics.create("kcat-lines")
    lines = "".join(f"key{i}:value {i}\n" for i in range(1000))
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-z", codec, stdin=lines)
    assert kcat(bootstrap, "-C", "-t", topic, "-K:", "-e", "-q") == lines


def test_headers_keys_and_nulls_are_formatted(bootstrap, topics) -> None:
    topic = topics.create("kcat-format")
    kcat(bootstrap, "-P", "-t", topic, "-H", "a=1", "-H", "b=2", "-k", "key", stdin="value\n")
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-Z", stdin="tombstone:\n")
    shape = "%o %k %S %h\n"
    out = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-f", shape)
    assert out.splitlines() == ["0 key 5 a=1,b=2", "1 tombstone -1 "]


def test_offsets_are_queried_by_time(bootstrap, topics) -> None:
    topic = topics.create("kcat-query")
    kcat(bootstrap, "-P", "-t", topic, stdin="a\nb\nc\n")
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:1").split() == [topic, "[0]", "offset", "0"]
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:-1").split()[-1] == "3"


def test_a_balanced_consumer_reads_all_partitions(bootstrap, topics, unique) -> None:
    topic = topics.create("kcat-group", partitions=3)
    for partition in range(3):
        kcat(bootstrap, "-P", "-t", topic, "-p", str(partition), stdin=f"p{partition}\n")
    options = ["-X", "auto.offset.reset=earliest", "-c", "3", "-q"]
    out = kcat(bootstrap, "-G", unique("g"), *options, topic)
    assert sorted(out.split()) == ["p0", "p1", "p2"]
