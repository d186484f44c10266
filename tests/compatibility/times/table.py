"""The table of look-ups by time: feeds a broker, asks it, and compares two brokers' answers. Knows no topic of it."""

import itertools
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "benches" / "versus"))

import brokers  # noqa: E402
import jars  # noqa: E402

# The batches are built by classes that are internal to this version's client.
KAFKA_VERSION = "4.4.0"
DAY_MS = 86_400_000
SETTINGS = {
    "kafka": {
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "1000",
        "log.cleaner.backoff.ms": "500",
    },
    "corelog": {
        "CORELOG_RETENTION__CHECK_INTERVAL_MS": "1000",
        "CORELOG_CLEANER__BACKOFF_MS": "500",
    },
}
SHOWN_MAX = 60


@dataclass(frozen=True)
class Programs:
    """Kafka's jars, and the programs that are compiled against them."""

    kafka: jars.Jars
    classes: Path
    # The table's times are after this one: long enough ago that the clock rolls no segment and nothing is too young.
    base_ms: int

    @classmethod
    def fetch(cls, classes: Path, *more_sources: Path) -> "Programs":
        kafka = jars.fetch(ROOT / "loadgen" / "versus" / "pom.xml", ROOT / "target" / "versus" / "jars", KAFKA_VERSION)
        directories = (HERE / "java", *more_sources)
        sources = [str(file) for directory in directories for file in sorted(directory.glob("*.java"))]
        path = f"{kafka.directory}/*"
        # Of [path], which warns of manifests that name jars which are not there; of [try], of a thread that is interrupted.
        command = ["javac", "-Xlint:all,-path,-try", "-Werror", "-cp", path, "-d", str(classes), *sources]
        subprocess.run(command, check=True)
        return cls(kafka, classes, int(time.time() * 1000) - 10 * DAY_MS)

    def run(self, main: str, *arguments: str) -> list[str]:
        path = f"{self.classes}:{self.kafka.directory}/*"
        options = ["-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command = ["java", *options, "-cp", path, main, *arguments]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()

    def lookups(self, what: str, address: str, *more: str) -> list[str]:
        return self.run("Lookups", what, address, str(self.base_ms), *more)


def answers(name: str, binary: str, programs: Programs, work: Path) -> list[str]:
    """What a fresh broker answers."""
    with brokers.running(name, "none", binary, programs.kafka, work, SETTINGS[name]) as broker:
        say(f"{name}: feeding")
        programs.lookups("feed", broker.address)
        say(f"{name}: asking")
        return programs.lookups("ask", broker.address) + programs.run("Refusals", broker.address)


@dataclass(frozen=True)
class Difference:
    """Where corelog answers otherwise than Kafka."""

    question: re.Pattern
    # What corelog answers there.
    answer: re.Pattern
    reason: str


def differences(file: Path) -> list[Difference]:
    """Lines of a question, corelog's answer, both regular expressions, and a reason, with tabs between."""
    lines = (line for line in file.read_text().splitlines() if line and not line.startswith("#"))
    fields = (line.split("\t") for line in lines)
    return [Difference(re.compile(question), re.compile(answer), reason) for question, answer, reason in fields]


def compare(kafka: list[str], corelog: list[str], known: list[Difference]) -> tuple[bool, list[Difference]]:
    """Prints how they differ; whether they do so as is known only, and which known differences are not there."""
    seen: dict[Difference, int] = dict.fromkeys(known, 0)
    wrong = []
    for theirs, ours in itertools.zip_longest(kafka, corelog, fillvalue="nothing: nothing"):
        if theirs == ours:
            continue
        (asked, _), (question, answer) = theirs.rsplit(": ", 1), ours.rsplit(": ", 1)
        fits = (it for it in known if it.question.fullmatch(question) and it.answer.fullmatch(answer))
        difference = next(fits, None) if asked == question else None
        if difference:
            seen[difference] += 1
        else:
            wrong.append(f"Kafka    {theirs}\ncorelog  {ours}")
    print("\n".join(wrong[:SHOWN_MAX]))
    for difference, times in seen.items():
        if times:
            print(f"{times} answers differ: {difference.reason}")
    print(f"Kafka {KAFKA_VERSION}: {len(kafka)} answers compared, {len(wrong)} differ that should not")
    return bool(kafka) and not wrong, [difference for difference, times in seen.items() if not times]


def build() -> str:
    subprocess.run(["cargo", "build", "--release", "--bin", "corelog"], cwd=ROOT, check=True, stdout=sys.stderr)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "release" / "corelog")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
