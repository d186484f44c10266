"""What is measured: shapes of groups, and what can be set by environment. Knows no process and no file."""

import os
from dataclasses import dataclass

BROKERS = ("corelog", "kafka")
PROTOCOLS = ("classic", "consumer")


@dataclass(frozen=True)
class Shape:
    """So many groups of so many members, that all read one topic. In a `storm` producers are measured as well."""

    name: str
    groups: int
    members: int
    partitions: int
    storm: bool


SHAPES = (
    Shape("many", groups=1_000, members=10, partitions=10, storm=True),
    Shape("large", groups=1, members=1_000, partitions=1_000, storm=False),
)


@dataclass(frozen=True)
class Settings:
    brokers: tuple[str, ...]
    shapes: tuple[Shape, ...]
    protocols: tuple[str, ...]
    # "flush": each append is on the disk before it is answered; "none": no flush is waited for.
    guarantee: str
    hold_seconds: int
    storm_repeats: int
    produce_seconds: int
    produce_rate: str
    gust_every_ms: int
    gust_groups: int
    kafka_version: str
    corelog: str
    loadgen: str
    members: str


def from_environment() -> Settings:
    """Reads the options; a wrong one ends the program with its name."""
    shapes = {shape.name: shape for shape in SHAPES}
    return Settings(
        brokers=_chosen("CORELOG_GROUPS_BROKERS", BROKERS),
        shapes=tuple(shapes[name] for name in _chosen("CORELOG_GROUPS_SHAPES", tuple(shapes))),
        protocols=_chosen("CORELOG_GROUPS_PROTOCOLS", PROTOCOLS),
        guarantee=_chosen("CORELOG_GROUPS_GUARANTEE", ("flush", "none"))[0],
        hold_seconds=_number("CORELOG_GROUPS_HOLD_SECONDS", 30),
        storm_repeats=_number("CORELOG_GROUPS_STORM_REPEATS", 3),
        produce_seconds=_number("CORELOG_GROUPS_PRODUCE_SECONDS", 8),
        produce_rate=os.environ.get("CORELOG_GROUPS_PRODUCE_RATE", "5k/s"),
        gust_every_ms=_number("CORELOG_GROUPS_GUST_EVERY_MS", 10),
        gust_groups=_number("CORELOG_GROUPS_GUST_GROUPS", 1),
        kafka_version=os.environ.get("CORELOG_GROUPS_KAFKA", ""),
        corelog=os.environ.get("CORELOG_BINARY", ""),
        loadgen=os.environ.get("CORELOG_LOADGEN_BINARY", ""),
        members=os.environ.get("CORELOG_MEMBERS_BINARY", ""),
    )


def _chosen(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(os.environ.get(name, ",".join(known)).split(","))
    if unknown := [it for it in chosen if it not in known]:
        raise SystemExit(f"{name}: unknown {unknown}; known: {','.join(known)}")
    return chosen


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdigit():
        raise SystemExit(f"{name}={text}: a whole number is needed")
    return int(text)
