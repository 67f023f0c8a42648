"""Nodes with two log directories and one for the quorum, whose disks fail on demand."""

from collections.abc import Mapping
from pathlib import Path

from compat_tests.cluster.clusters import BarnabasCluster

EIO, ENOSPC = "eio", "enospc"


def slow(seconds: float) -> str:
    """Return the fault of a disk whose every sync takes this time."""
    return f"slow {seconds}"


class FaultyCluster(BarnabasCluster):
    """`barnabas serve` processes whose disks the test makes fail (see `faulty_node`)."""

    def __init__(
        self, config: Mapping[str, str] | None = None, nodes: int = 3, voters: int | None = None
    ) -> None:
        super().__init__(config, nodes, voters)
        for node_id, node in self.processes.nodes.items():
            node.program = ("-m", "compat_tests.cluster.faulty_node", str(self._file(node_id)))
            node.config["metadata.log.dir"] = str(self.directory(node_id))
            node.config["log.dirs"] = ",".join(map(str, self.log_directories(node_id)))

    def log_directories(self, node_id: int) -> tuple[Path, Path]:
        directory = self.directory(node_id)
        return directory.with_name(f"{directory.name}-a"), directory.with_name(
            f"{directory.name}-b"
        )

    def partitions_in(self, directory: Path, topic: str) -> set[int]:
        """Return the partitions of a topic that are in a directory."""
        return {int(path.name.rpartition("-")[2]) for path in directory.glob(f"{topic}-[0-9]*")}

    def set_fault(self, node_id: int, directory: Path, fault: str) -> None:
        """Set the fault of a directory of a node: `EIO`, `ENOSPC` or `slow(seconds)`."""
        file = self._file(node_id)
        new = file.with_suffix(".new")
        new.write_text(f"{directory} {fault}\n")
        new.replace(file)

    def heal(self, node_id: int) -> None:
        """Remove the fault of a node."""
        self._file(node_id).unlink(missing_ok=True)

    def _file(self, node_id: int) -> Path:
        return self.data / f"faults-{node_id}"
