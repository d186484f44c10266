"""What a broker's cleaner says of itself, read from the broker's log while it grows. Knows no topic's content."""

import re
import time
from dataclasses import dataclass
from pathlib import Path

from brokers import Broker

POLL_SECONDS = 0.02

_CORELOG = re.compile(
    r"^cleaner: (?P<name>\S+): \d+ % dirty from (?P<dirty_from>\d+) on; clean below (?P<end>\d+) now; (?P<keys>\d+) keys; "
    r"\d+ segments of (?P<before>\d+) bytes became \d+ of (?P<after>\d+); (?P<ms>\d+) ms$",
    re.MULTILINE,
)
_KAFKA = re.compile(
    r"Log cleaner thread \d+ cleaned log (?P<name>\S+) \(dirty section = \[(?P<dirty_from>\d+), (?P<end>\d+)\]\)\s+"
    r"[\d.,]+ MB of log processed in (?P<seconds>[\d.,]+) seconds.*?"
    r"Start size: (?P<before>[\d.,]+) MB.*?End size: (?P<after>[\d.,]+) MB [^\n]*\n",
    re.DOTALL,
)
_COMPLAINT = re.compile(r"^error: cleaner.*$|^.*(?:uncleanable|Error in cleaner|cleaner thread.*(?:fail|error)).*$", re.MULTILINE)


@dataclass(frozen=True)
class Cleaned:
    """One partition, cleaned once; moments are of the monotonic clock."""

    partition: str
    end: int
    began: float
    ended: float
    bytes_before: float
    bytes_after: float


class Cleaner:
    """Follows the log of a broker from now on."""

    def __init__(self, name: str, broker: Broker, log: Path):
        self.name, self.broker, self.log = name, broker, log
        self._at = log.stat().st_size
        self._text = ""
        self.all: list[Cleaned] = []

    def look(self) -> None:
        """Takes in what was said since the last look."""
        with self.log.open("rb") as file:
            file.seek(self._at)
            more = file.read()
        self._at += len(more)
        self._text += more.decode(errors="replace")
        now = time.monotonic()
        pattern = _CORELOG if self.name == "corelog" else _KAFKA
        taken = 0
        for match in pattern.finditer(self._text):
            self.all.append(self._cleaned(match, now))
            taken = match.end()
        if complaint := _COMPLAINT.search(self._text):
            raise RuntimeError(f"{self.name}: {complaint[0]}")
        self._text = self._text[taken:]

    def _cleaned(self, match: re.Match, now: float) -> Cleaned:
        if self.name == "corelog":
            seconds, unit = int(match["ms"]) / 1_000, 1
        else:
            seconds, unit = _number(match["seconds"]), 2**20
        sizes = [_number(match[which]) * unit for which in ("before", "after")]
        return Cleaned(match["name"], int(match["end"]), now - seconds, now, *sizes)

    def until_clean(self, topic: str, seconds_max: float) -> list[Cleaned]:
        """Waits until of each partition all but the active segment is cleaned."""
        wanted = active_bases(self.broker.data, topic)
        deadline = time.monotonic() + seconds_max
        while True:
            self.look()
            done = [one for one in self.all if wanted.get(one.partition, -1) == one.end]
            if len(done) == len(wanted):
                return [one for one in self.all if one.partition in wanted]
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: {topic} is not clean after {seconds_max} s; see {self.log}")
            time.sleep(POLL_SECONDS)

    def is_clean(self, topic: str) -> bool:
        """Whether it has been seen to be, by the last look."""
        wanted = active_bases(self.broker.data, topic)
        return all(any((one.partition, one.end) == it for one in self.all) for it in wanted.items())


def partitions(data: Path, topic: str) -> dict[str, Path]:
    """The directories of a topic's partitions, which corelog names with the topic's id besides."""
    found = {}
    for directory in (data / "logs").iterdir():
        name = directory.name.partition(".")[0]
        if name.rpartition("-")[0] == topic and "-delete" not in directory.name:
            found[name] = directory
    return found


def active_bases(data: Path, topic: str) -> dict[str, int]:
    """Where each partition's active segment begins."""
    return {name: _bases(directory)[-1] for name, directory in partitions(data, topic).items()}


def sealed_bytes(data: Path, topic: str) -> int:
    """Bytes of all but the active segments."""
    total = 0
    for directory in partitions(data, topic).values():
        sealed = sorted(directory.glob("*.log"))[:-1]
        total += sum(file.stat().st_size for file in sealed)
    return total


def _bases(directory: Path) -> list[int]:
    return sorted(int(file.stem) for file in directory.glob("*.log"))


def _number(text: str) -> float:
    return float(text.replace(",", ""))
