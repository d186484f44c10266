"""What is measured: the inputs, and what can be set by environment. Knows no process and no file."""

import os
from dataclasses import dataclass

BROKERS = ("corelog", "kafka")
# From a topic's first partition that is due until the cleaner looks. Kafka's default is 15 s, on both.
BACKOFF_MS = 500


@dataclass(frozen=True)
class Keys:
    """How often which key occurs. `exponent` of 0: each as often as any other; otherwise by a zipf law."""

    name: str
    exponent: float


KEYS = (Keys("uniform", 0), Keys("zipf", 1.05))


@dataclass(frozen=True)
class Settings:
    brokers: tuple[str, ...]
    keys: tuple[Keys, ...]
    # "flush": each append is on the disk before it is answered; "none": no flush is waited for.
    guarantee: str
    repeats: int
    mib: int
    partitions: int
    segment_mib: int
    record_bytes: int
    # Records of a topic for each of its keys.
    versions: int
    codec: str
    # "dropped": what is to be cleaned has left the page cache; "kept".
    page_cache: str
    produce_seconds: int
    produce_rate: str
    # Bytes that may be fed so that the cleaner has work for the length of a produce run.
    work_mib_max: int
    kafka_version: str
    corelog: str
    loadgen: str

    def records(self, mib: int) -> int:
        return mib * 2**20 // self.record_bytes


def from_environment() -> Settings:
    """Reads the options; a wrong one ends the program with its name."""
    keys = {one.name: one for one in KEYS}
    return Settings(
        brokers=_chosen("BROKERS", BROKERS),
        keys=tuple(keys[name] for name in _chosen("KEYS", tuple(keys))),
        guarantee=_one_of("GUARANTEE", ("flush", "none")),
        repeats=_number("REPEATS", 3),
        mib=_number("MIB", 1024),
        partitions=_number("PARTITIONS", 4),
        segment_mib=_number("SEGMENT_MIB", 64),
        record_bytes=_number("RECORD_BYTES", 1024),
        versions=_number("VERSIONS", 4),
        codec=_one_of("CODEC", ("none", "gzip", "snappy", "lz4", "zstd")),
        page_cache=_one_of("PAGE_CACHE", ("dropped", "kept")),
        produce_seconds=_number("PRODUCE_SECONDS", 8),
        produce_rate=_text("PRODUCE_RATE", "5k/s"),
        work_mib_max=_number("WORK_MIB_MAX", 6144),
        kafka_version=_text("KAFKA", ""),
        corelog=os.environ.get("CORELOG_BINARY", ""),
        loadgen=os.environ.get("CORELOG_LOADGEN_BINARY", ""),
    )


def _text(name: str, default: str) -> str:
    return os.environ.get(f"CORELOG_COMPACTION_{name}", default)


def _one_of(name: str, known: tuple[str, ...]) -> str:
    text = _text(name, known[0])
    if text not in known:
        raise SystemExit(f"CORELOG_COMPACTION_{name}: unknown {text}; known: {','.join(known)}")
    return text


def _chosen(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(_text(name, ",".join(known)).split(","))
    if unknown := [it for it in chosen if it not in known]:
        raise SystemExit(f"CORELOG_COMPACTION_{name}: unknown {unknown}; known: {','.join(known)}")
    return chosen


def _number(name: str, default: int) -> int:
    text = _text(name, str(default))
    if not text.isdigit():
        raise SystemExit(f"CORELOG_COMPACTION_{name}={text}: a whole number is needed")
    return int(text)
