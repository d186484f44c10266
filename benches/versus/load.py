"""The load: topics, kafka-producer-perf-test and the catch-up reader against a broker, and what they measured."""

import os
import re
import subprocess
from pathlib import Path

import processes
from brokers import Broker
from jars import TOOL_HEAP, Jars
from settings import PRODUCER, Case, Settings

READER = Path(__file__).with_name("CatchUpReader.java")

# A tenth of a run's records come first and are not in its figures: the producer is a JVM too, and starts cold.
COLD_SHARE = 10

# A warm-up is repeated with more records until it lasts this long: the broker's JVM has compiled what matters,
# corelog's write-ahead log has its extents, and the rate is good enough to plan the measured run with.
WARM_UP_RECORDS_FIRST = 10_000
WARM_UP_SECONDS_MIN = 5
WARM_UP_GROWTH_MAX = 10

_SUMMARY = re.compile(
    r"^(?P<records>\d+) (?P<steady>steady state )?records sent, (?P<records_s>[\d.]+) records/sec"
    r" \((?P<mib_s>[\d.]+) MB/sec\)",
    re.MULTILINE,
)


class Load:
    """Drives one broker for one case."""

    def __init__(self, broker: Broker, case: Case, settings: Settings, jars: Jars, log: Path):
        self.broker, self.case, self.settings, self.jars, self.log = broker, case, settings, jars, log

    def create_topic(self, topic: str) -> None:
        command = self.jars.java(
            TOOL_HEAP, "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.broker.address,
            "--create", "--topic", topic, "--partitions", str(self.settings.partitions),
        )  # fmt: skip
        with processes.started(command, self.log) as process:
            if process.wait(60) != 0:
                raise RuntimeError(f"topic {topic} was not created; see {self.log}")

    def produce(self, topic: str, records: int) -> dict[str, float]:
        with processes.started(self._producer(topic, records), self.log, stdout=subprocess.PIPE) as process:
            output = process.communicate(timeout=self.settings.run_seconds_max)[0]
        if process.returncode != 0:
            raise RuntimeError(f"the producer failed; see {self.log}")
        return _steady_state(output)

    def _producer(self, topic: str, records: int) -> list[str]:
        properties = {**PRODUCER, "acks": self.case.acks}
        return self.jars.java(
            TOOL_HEAP, "org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", self.broker.address,
            "--topic", topic, "--num-records", str(records), "--warmup-records", str(records // COLD_SHARE),
            "--record-size", str(self.settings.record_bytes), "--throughput", "-1",
            "--command-property", *(f"{key}={value}" for key, value in properties.items()),
        )  # fmt: skip

    def warm_up(self, topic: str) -> tuple[int, float]:
        """Produces until the broker is warm: the records now in the topic, and the last run's records per second."""
        total, records = 0, WARM_UP_RECORDS_FIRST
        while True:
            rate = self.produce(topic, records)["records_s"]
            total += records
            seconds = records / rate
            if seconds >= WARM_UP_SECONDS_MIN:
                return total, rate
            # Half as many again as seem needed: rates rise while it warms.
            records = int(records * min(WARM_UP_GROWTH_MAX, 1.5 * WARM_UP_SECONDS_MIN / seconds))

    def measured_produce(self, topic: str, records: int) -> dict[str, float]:
        return self._with_costs(lambda: self.produce(topic, records), records)

    def measured_fetch(self, warm_up: tuple[str, int], measured: tuple[str, int]) -> dict[str, float]:
        """Reads two topics in one JVM; the figures are of the second."""
        command = self.jars.java(
            TOOL_HEAP, str(READER), self.broker.address, str(self.settings.partitions),
            warm_up[0], str(warm_up[1]), measured[0], str(measured[1]),
        )  # fmt: skip
        with processes.started(command, self.log, stdout=subprocess.PIPE) as process:
            self._read_line(process)
            return self._with_costs(lambda: _reading(self._read_line(process)), measured[1])

    def _read_line(self, process: subprocess.Popen) -> str:
        if line := process.stdout.readline():
            return line
        raise RuntimeError(f"the reader failed; see {self.log}")

    def _with_costs(self, run, records: int) -> dict[str, float]:
        """Adds what the broker used meanwhile: processor time over all its threads, largest resident memory."""
        pid = self.broker.pid
        processes.reset_peak_rss(pid)
        before = processes.cpu_seconds(pid)
        figures = run()
        cpu_s = processes.cpu_seconds(pid) - before
        return {
            **figures,
            "broker_cpu_s": cpu_s,
            "broker_cpu_us_per_record": cpu_s * 1e6 / records,
            "broker_rss_peak_mib": processes.peak_rss_mib(pid),
        }


def drop_from_page_cache(directory: Path) -> None:
    """Only clean pages can be dropped, so everything is written out first."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _steady_state(output: str) -> dict[str, float]:
    for match in _SUMMARY.finditer(output):
        if match["steady"]:
            return {key: float(value) for key, value in match.groupdict().items() if key != "steady"}
    raise RuntimeError(f"no steady state summary in the producer's output:\n{output}")


def _reading(line: str) -> dict[str, float]:
    _, records, value_bytes, seconds = line.split()
    return {
        "records": float(records),
        "records_s": int(records) / float(seconds),
        "mib_s": int(value_bytes) / float(seconds) / 2**20,
    }
