"""The checkpoint that a query starts with, in the format that Spark reads."""

import json
from pathlib import Path

from barnabas.pipeline.delivery.driver.frame_sources import KafkaSource, write_checkpoint


def test_checkpoint_has_a_committed_batch_that_ends_at_the_offsets(tmp_path: Path) -> None:
    sources = [KafkaSource(("a", "b"), "earliest"), KafkaSource(("c",), "latest")]
    write_checkpoint(tmp_path, sources, {"c": {0: 7}, "a": {0: 1, 1: 2}, "b": {0: 0}})
    version, batch, *positions = (tmp_path / "offsets" / "0").read_text().splitlines()
    assert version == "v1"
    assert json.loads(batch)["batchWatermarkMs"] == 0
    assert [json.loads(each) for each in positions] == [
        {"a": {"0": 1, "1": 2}, "b": {"0": 0}},
        {"c": {"0": 7}},
    ]
    assert (tmp_path / "commits" / "0").read_text().splitlines()[0] == "v1"
    assert json.loads((tmp_path / "metadata").read_text())["id"]
