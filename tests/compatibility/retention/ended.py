"""When a topic of Survivors.java is where its rules lead: judged from the records that it still has and from where its
segments begin. Knows no broker, and not what the other broker has left."""

from dataclasses import dataclass
from pathlib import Path

DAY_MS = 86_400_000
RECORDS = 1_500
SEGMENT_BYTES = 1_048_576
# A segment is full when the next batch does not fit: five records of 2,500 bytes at most, and their keys.
BATCH_BYTES_MAX = 13_000


@dataclass
class Left:
    """What a topic has left. Records are (offset, key, timestamp); the broker's own timestamp is not told."""

    start: int
    end: int
    records: list[tuple[int, str, int]]
    # Where its segments begin.
    bases: list[int]


def not_yet(lines: list[str], logs: Path, now_ms: int, retained: bool) -> list[str]:
    """The topics that are not there yet. `retained`: compact-delete has its limit in bytes by now."""
    topics: dict[str, Left] = {}
    for line in lines:
        topic, *words = line.split()
        if words[0] == "starts":
            topics[topic] = Left(int(words[2]), int(words[-1]), [], bases(logs, topic))
        else:
            timestamp = 0 if words[2] == "appended" else int(words[2])
            topics[topic].records.append((int(words[0]), words[1], timestamp))
    return [topic for topic, left in topics.items() if not is_there(topic, left, now_ms, retained)]


def bases(logs: Path, topic: str) -> list[int]:
    (directory,) = (at for at in logs.iterdir() if at.name == f"{topic}-0" or at.name.startswith(f"{topic}-0."))
    return sorted(int(file.stem) for file in directory.glob("*.log"))


def is_there(topic: str, left: Left, now_ms: int, retained: bool) -> bool:
    day_old = now_ms - DAY_MS
    match topic:
        case "compact-delete" if retained:
            return left.start == left.bases[-1]
        case "compact-lag":
            young = min(offset for offset, _, timestamp in left.records if timestamp > day_old)
            return is_compacted(left, max(base for base in left.bases if base <= young))
        case _ if topic.startswith("compact"):
            # Never the active segment.
            return is_compacted(left, left.bases[-1])
        case "size":
            # So few full segments that with the oldest gone less than retention.bytes would be left.
            full = SEGMENT_BYTES - BATCH_BYTES_MAX
            return left.start > 0 and (len(left.bases) - 2) * full < 2_000_000
        case "both-append" | "both-untimed" | "both-by-size" | "both-by-time":
            return left.start == left.bases[-1]
        case "size-zero" | "time-all" | "append-all" | "untimed-all":
            return left.start == left.end == RECORDS
        case "time":
            # The oldest segment holds a record that is young enough.
            oldest_end = min((base for base in left.bases if base > left.start), default=left.end)
            return left.start > 0 and any(time >= day_old for at, _, time in left.records if at < oldest_end)
        case _:
            # Nothing goes. That it has had the chance is what the other topics show.
            return len(left.records) == RECORDS


def is_compacted(left: Left, end: int) -> bool:
    keys = [key for offset, key, _ in left.records if offset < end]
    return end > 0 and len(keys) == len(set(keys))
