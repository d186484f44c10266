"""Copies partition directories between the two brokers, and reads what Kafka's tool and log say of them. Files that hold
records and their indexes are copied as they are; whose log it is each broker knows by a file of its own."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "times"))

from table import jars  # noqa: E402

# Records first: an index is read beside its log.
ENDINGS = (".log", ".index", ".timeindex")
# Where Kafka keeps the log starts that no segment begins with.
STARTS = "log-start-offset-checkpoint"
# What Kafka's rooms for logs say of files that they must repair or cannot use.
ROOMS = re.compile(r"org\.apache\.kafka\.storage|LogManager|ReplicaManager|kafka\.log\.|kafka\.cluster\.Partition")
COMPLAINTS = re.compile(r" (WARN|ERROR) |corrupt|invalid|rebuil|truncat|could not find|sanity|inconsisten", re.IGNORECASE)
# Of Kafka's own metadata log; of producer snapshots and the high watermark, which are not copied.
HARMLESS = re.compile(r"__cluster_metadata|rebuilding producer state|Non-monotonic update of high watermark")
# What DumpLogSegments says of damaged batches and of index entries that lead elsewhere.
DUMP_COMPLAINTS = ("isvalid: false", "ismatch", "out of order", "not found", "Exception", "Error")


def to_kafka(corelog: Path, kafka: Path) -> None:
    """Puts corelog's logs in the place of Kafka's, which has the same topics."""
    for name in (STARTS, "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint"):
        (kafka / name).unlink(missing_ok=True)
    starts = []
    for target in partitions(kafka):
        (source,) = (at for at in corelog.glob(f"{target.name}.*") if at.is_dir())
        replace(source, target, keep="partition.metadata")
        start = corelog_start(source)
        if start:
            starts.append(f"{target.name.removesuffix('-0')} 0 {start}")
    (kafka / STARTS).write_text("\n".join(["0", str(len(starts)), *starts]) + "\n")


def to_corelog(kafka: Path, corelog: Path) -> None:
    """Puts Kafka's logs in the place of corelog's. Without the checkpoint of a clean stop corelog reads them through."""
    for source in partitions(kafka):
        (target,) = (at for at in corelog.glob(f"{source.name}.*") if at.is_dir())
        replace(source, target, keep="partition.metadata")


def partitions(kafka: Path) -> list[Path]:
    """Kafka's logs, without its own of metadata."""
    return sorted(at for at in kafka.glob("*-0") if not at.name.startswith("__"))


def kafka_starts(kafka: Path) -> list[str]:
    """Where Kafka's logs start, as TOPIC=OFFSET, those at 0 left out."""
    lines = (line.split() for line in (kafka / STARTS).read_text().splitlines()[2:])
    return [f"{topic}={offset}" for topic, _, offset in lines]


def replace(source: Path, target: Path, keep: str) -> None:
    for file in target.iterdir():
        if file.name != keep:
            file.unlink()
    for file in source.iterdir():
        if file.suffix in ENDINGS:
            shutil.copy2(file, target / file.name)


def corelog_start(directory: Path) -> int:
    """The log start in corelog's partition.metadata: behind a head of 16 bytes, the topic's id and the index."""
    return int.from_bytes((directory / "partition.metadata").read_bytes()[36:44], "little")


def is_complaint(line: str) -> bool:
    return bool(ROOMS.search(line) and COMPLAINTS.search(line)) and not HARMLESS.search(line)


@dataclass(frozen=True)
class Dumped:
    """What DumpLogSegments prints."""

    complaints: list[str]
    # Topic and offset of each record.
    records: set[tuple[str, str]]


def dump(kafka: jars.Jars, files: list[Path]) -> Dumped:
    listed = ",".join(str(file) for file in files)
    command = kafka.java(jars.TOOL_HEAP, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", listed)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = done.stdout.splitlines()
    complaints = [line for line in lines if any(word in line for word in DUMP_COMPLAINTS)]
    if done.returncode:
        complaints.append(f"exit code {done.returncode}: {done.stdout[-500:]}")
    topic, records = "", set()
    for line in lines:
        if line.startswith("Dumping "):
            topic = Path(line.removeprefix("Dumping ")).parent.name.rpartition("-0.")[0]
        elif found := re.match(r"\| offset: (\d+) ", line):
            records.add((topic, found[1]))
    return Dumped(complaints, records)
