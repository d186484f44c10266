"""What is compared: the cases, and what can be set by environment. Knows no process and no file."""

import os
from dataclasses import dataclass

# Given to every producer in so many words, so that the figures do not move with a client's defaults.
# They are the Java producer's own defaults in Kafka 4.
PRODUCER = {
    "batch.size": "16384",
    "linger.ms": "5",
    "buffer.memory": "33554432",
    "compression.type": "none",
    "max.in.flight.requests.per.connection": "5",
}

BROKERS = ("corelog", "kafka")


@dataclass(frozen=True)
class Case:
    """One comparison. `guarantee` is "flush" (acknowledged when on disk) or "none" (no flush is waited for)."""

    name: str
    scenario: str
    guarantee: str
    acks: str


CASES = (
    Case("flush", "produce", "flush", "all"),
    Case("none-acks-all", "produce", "none", "all"),
    Case("none-acks-1", "produce", "none", "1"),
    Case("fetch", "fetch", "none", "all"),
    Case("fetch-cold", "fetch-cold", "none", "all"),
)


@dataclass(frozen=True)
class Settings:
    """`records` of None: as many as a broker takes in `seconds`, by the rate of its warm-up."""

    repeats: int
    seconds: int
    records: int | None
    fetch_records: int
    record_bytes: int
    partitions: int
    run_seconds_max: int
    kafka_version: str
    corelog_binary: str
    cases: tuple[Case, ...]


def from_environment() -> Settings:
    """Reads the options; a wrong one ends the program with its name."""
    records = _number("CORELOG_VERSUS_RECORDS", None)
    return Settings(
        repeats=_number("CORELOG_VERSUS_REPEATS", 5),
        seconds=_number("CORELOG_VERSUS_SECONDS", 15),
        records=records,
        fetch_records=records or 2_000_000,
        record_bytes=_number("CORELOG_VERSUS_RECORD_BYTES", 1024),
        partitions=_number("CORELOG_VERSUS_PARTITIONS", 16),
        run_seconds_max=_number("CORELOG_VERSUS_RUN_SECONDS_MAX", 180),
        kafka_version=os.environ.get("CORELOG_VERSUS_KAFKA", ""),
        corelog_binary=os.environ.get("CORELOG_BINARY", ""),
        cases=tuple(_chosen_cases()),
    )


def _chosen_cases() -> list[Case]:
    known = {case.name: case for case in CASES}
    names = os.environ.get("CORELOG_VERSUS_CASES", ",".join(known)).split(",")
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"CORELOG_VERSUS_CASES: unknown {unknown}; known: {','.join(known)}")
    return [known[name] for name in names]


def _number(name: str, default: int | None) -> int | None:
    text = os.environ.get(name, "")
    if text and (not text.isdigit() or int(text) == 0):
        raise SystemExit(f"{name}={text}: a whole number above 0 is needed")
    return int(text) if text else default
