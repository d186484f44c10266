"""Figures of all runs to medians, ratios, and text. Knows no broker and no process."""

import statistics
from dataclasses import dataclass

from settings import BROKERS, Case


@dataclass(frozen=True)
class Run:
    """One measured run. Runs of the same case and repeat are a pair, and were made one right after the other."""

    case: str
    repeat: int
    broker: str
    figures: dict[str, float]


# What the table shows: title, figure, format. The producer's latencies are not among them: it sends without a limit
# on its rate, so they are the time spent in its own buffer.
COLUMNS = (
    ("records/s", "records_s", ",.0f"),
    ("MiB/s", "mib_s", ".1f"),
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


def _ratio_text(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.2f}x ({ratio['min']:.2f} to {ratio['max']:.2f})"
