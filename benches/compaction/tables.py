"""Figures to text. Knows no broker and no process."""

import statistics

BROKERS = ("corelog", "kafka")
GIB = 2**30


def progress(one: dict) -> str:
    return (
        f"{one['keys']}: {one['bytes'] / 2**20:,.0f} MiB in {one['seconds']:.2f} s, "
        f"{one['left_bytes'] / 2**20:,.0f} MiB left, {one['cpu_s']:.2f} CPU s"
    )


def cleaned(rows: list[dict], keys: list[str]) -> str:
    """How fast, and at what cost."""
    titles = ["keys", "broker", "dirty MiB", "left MiB", "MiB/s", "records/s", "one cleaner, MiB/s", "CPU s/GiB", "peak RSS MiB"]
    titles += ["MiB/s: corelog / Kafka (min to max)", "CPU: corelog / Kafka (min to max)"]
    lines = [_line(titles), _line(["---"] * 2 + ["---:"] * 7 + ["---"] * 2)]
    for name in keys:
        of = {broker: [row for row in rows if (row["keys"], row["broker"]) == (name, broker)] for broker in BROKERS}
        for broker, runs in of.items():
            if not runs:
                continue
            cells = [name, broker]
            cells += [f"{_median(runs, lambda it: it['bytes']) / 2**20:,.0f}"]
            cells += [f"{_median(runs, lambda it: it['left_bytes']) / 2**20:,.0f}"]
            cells += [f"{_median(runs, _rate) / 2**20:,.0f}"]
            cells += [f"{_median(runs, lambda it: it['records'] / it['seconds']):,.0f}"]
            cells += [f"{_median(runs, lambda it: it['bytes'] / it['busy_seconds']) / 2**20:,.0f}"]
            cells += [f"{_median(runs, _cost):.2f}", f"{_median(runs, lambda it: it['rss_mib']):,.0f}"]
            first = broker == BROKERS[0]
            cells += [_ratios(of, figure) if first else "" for figure in (_rate, _cost)]
            lines.append(_line(cells))
    return "\n".join(lines)


def produced(pairs: list[dict]) -> str:
    """Producers beside a cleaner without work, and beside one at work."""
    titles = ["broker", "p50 calm", "beside", "p99 calm", "beside", "ratio: median (min to max)", "p99.9 calm", "beside"]
    titles += ["ratio: median (min to max)", "cleaning ran for", "MiB cleaned/s meanwhile", "broker's CPU calm", "beside"]
    lines = [_line(titles), _line(["---"] * len(titles))]
    for broker in BROKERS:
        runs = [pair for pair in pairs if pair["broker"] == broker]
        if not runs:
            continue
        cells = [broker]
        for quantile in ("p50_ms", "p99_ms", "p999_ms"):
            both = [(run["calm"][quantile], run["beside"][quantile]) for run in runs]
            cells += [_list([it[which] for it in both]) for which in (0, 1)]
            if quantile != "p50_ms":
                cells.append(_spread([there / here for here, there in both if here and there]))
        cells.append(", ".join(f"{run['cleaning_share']:.0%}" for run in runs))
        cells.append(", ".join(f"{run['cleaned_bytes'] / run['seconds'] / 2**20:,.0f}" for run in runs))
        cells += [f"{_median(runs, lambda it, at=at: it[at]):.0%} of a core" for at in ("calm_cpu_share", "beside_cpu_share")]
        lines.append(_line(cells))
    return "\n".join(lines)


def _rate(row: dict) -> float:
    return row["bytes"] / row["seconds"]


def _cost(row: dict) -> float:
    return row["cpu_s"] / (row["bytes"] / GIB)


def _median(rows: list[dict], figure) -> float:
    return statistics.median(figure(row) for row in rows)


def _ratios(of: dict[str, list[dict]], figure) -> str:
    """Of runs next to each other."""
    ours, theirs = (of[broker] for broker in BROKERS)
    return _spread([figure(here) / figure(there) for here, there in zip(ours, theirs)])


def _spread(ratios: list[float]) -> str:
    if not ratios:
        return "-"
    return f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"


def _list(values: list[float | None]) -> str:
    return ", ".join("-" if value is None else f"{value:.1f}" for value in values) + " ms"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
