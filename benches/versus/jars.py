"""Apache Kafka's jars: fetched by Maven into target/versus/jars, started as Kafka's own scripts start them."""

import subprocess
import sys
from pathlib import Path

# What kafka-run-class gives to every JVM, and the heaps of kafka-server-start and kafka-producer-perf-test.
PERFORMANCE_OPTIONS = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]
BROKER_HEAP = ["-Xmx1G", "-Xms1G"]
TOOL_HEAP = ["-Xmx512M"]


class Jars:
    def __init__(self, directory: Path, version: str):
        self.directory = directory
        self.version = version

    def java(self, heap: list[str], main: str, *arguments: str, log_level: str = "warn") -> list[str]:
        """The command that runs a main class, or a source file, with all the jars."""
        logging = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
        return ["java", *heap, *PERFORMANCE_OPTIONS, logging, "-cp", f"{self.directory}/*", main, *arguments]


def fetch(pom: Path, directory: Path, version: str) -> Jars:
    """Lets Maven resolve the version and copy what is missing."""
    # Beside each other, two versions would both be on the class path.
    directory = directory / (version or "newest")
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    command.append(f"-DoutputDirectory={directory}")
    if version:
        command.append(f"-Dkafka.version={version}")
    print("Maven: resolving Apache Kafka's jars", file=sys.stderr)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"Maven failed:\n{done.stdout}")
    clients = sorted(directory.glob("kafka-clients-*.jar"))
    if len(clients) != 1:
        raise SystemExit(f"{directory} holds {len(clients)} versions of kafka-clients: remove it and start again")
    return Jars(directory, clients[0].stem.removeprefix("kafka-clients-"))
