"""Figures of all runs to medians, ratios, and text. Knows no broker and no process."""

import statistics
from dataclasses import dataclass

from settings import BROKERS, PRODUCER, Case, Settings


@dataclass(frozen=True)
class Run:
    """One measured run. Runs of the same case and repeat are a pair, and were made one right after the other."""

    case: str
    repeat: int
    broker: str
    figures: dict[str, float]


# What the table shows: title, figure, format. Fetches have no latencies.
COLUMNS = (
    ("records/s", "records_s", ",.0f"),
    ("MiB/s", "mib_s", ".1f"),
    ("avg ms", "avg", ".1f"),
    ("p50", "p50", ".0f"),
    ("p95", "p95", ".0f"),
    ("p99", "p99", ".0f"),
    ("p99.9", "p999", ".0f"),
    ("max", "max", ".0f"),
    ("CPU s", "broker_cpu_s", ".2f"),
    ("CPU us/record", "broker_cpu_us_per_record", ".2f"),
    ("peak RSS MiB", "broker_rss_peak_mib", ".0f"),
)


def progress(run: Run) -> str:
    shown = [f"{title} {run.figures[key]:{form}}" for title, key, form in COLUMNS if key in run.figures]
    return f"{run.case} repeat {run.repeat} {run.broker}: {', '.join(shown)}"


def summary(cases: tuple[Case, ...], runs: list[Run]) -> dict[str, dict]:
    """Per case: each broker's medians, and how many times as fast corelog was, over the pairs."""
    result = {}
    for case in cases:
        of_case = [run for run in runs if run.case == case.name]
        ratios = _ratios(of_case)
        if ratios:
            result[case.name] = {
                "medians": {broker: _medians([r for r in of_case if r.broker == broker]) for broker in BROKERS},
                "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
                "pairs": len(ratios),
            }
    return result


def _medians(runs: list[Run]) -> dict[str, float]:
    return {key: statistics.median(run.figures[key] for run in runs) for key in runs[0].figures}


def _ratios(runs: list[Run]) -> list[float]:
    pairs: dict[int, dict[str, float]] = {}
    for run in runs:
        pairs.setdefault(run.repeat, {})[run.broker] = run.figures["records_s"]
    return [pair["corelog"] / pair["kafka"] for pair in pairs.values() if len(pair) == len(BROKERS)]


def table(summaries: dict[str, dict]) -> str:
    lines = [
        f"| case | broker | {' | '.join(title for title, _, _ in COLUMNS)} | corelog / Kafka (min to max) |",
        f"|---|---|{'---:|' * (len(COLUMNS) + 1)}",
    ]
    for name, case in summaries.items():
        for broker in BROKERS:
            medians = case["medians"][broker]
            cells = [f"{medians[key]:{form}}" if key in medians else "-" for _, key, form in COLUMNS]
            ratio = _ratio_text(case["ratio"]) if broker == "corelog" else ""
            lines.append(f"| {name} | {broker} | {' | '.join(cells)} | {ratio} |")
    return "\n".join(lines)


def paragraph(cases: tuple[Case, ...], summaries: dict[str, dict], environment: dict, settings: Settings) -> str:
    """Ready for a README."""
    what = {case.name: case.what for case in cases}
    ratios = "; ".join(f"{_ratio_text(case['ratio'])} in `{name}` ({what[name]})" for name, case in summaries.items())
    producer = ", ".join(f"{key}={value}" for key, value in PRODUCER.items())
    return (
        f"Records per second, corelog over Apache Kafka {environment['kafka']}, median (smallest to largest) of"
        f" {settings.repeats} alternating pairs: {ratios}."
        f" Records of {settings.record_bytes} bytes on {settings.partitions} partitions,"
        f" kafka-producer-perf-test unthrottled with {producer}, load and broker together on"
        f" {environment['cpus']}, {environment['memory']}, {environment['kernel']}, {environment['file_system']}"
        f" (append and flush of 4 KiB: {environment['flush_ms']} ms), {environment['java']}."
        " Repeat it with `benches/versus/run`; `benches/versus/README.md` says what it compares."
    )


def _ratio_text(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.2f}x ({ratio['min']:.2f} to {ratio['max']:.2f})"
