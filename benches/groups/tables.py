"""Figures to text. Knows no broker and no process."""

import statistics


def held(rows: list[dict]) -> str:
    """Groups that hold what they have."""
    titles = ["groups", "protocol", "broker", "stable after", "CPU of the broker", "a heartbeat's CPU"]
    titles += ["resident before", "holding", "heartbeats/s", "answered in p50", "p99", "longest", "refused"]
    lines = [_line(titles), _line(["---"] * len(titles))]
    for row in rows:
        beats = row["heartbeats_s"]
        cells = [row["groups"], row["protocol"], row["broker"], f"{row['stable_s']:.1f} s"]
        cells += [f"{row['cpu_share']:.1%} of a core", f"{row['cpu_share'] / beats * 1e6:.0f} us" if beats else "-"]
        cells += [f"{row['rss_before_mib']:.0f} MiB", f"{row['rss_mib']:.0f} MiB", f"{beats:,.0f}"]
        cells += [_ms(row["heartbeat_p50_ms"]), _ms(row["heartbeat_p99_ms"]), _ms(row["heartbeat_max_ms"])]
        cells += [str(row["refused"])]
        lines.append(_line(cells))
    return "\n".join(lines)


def storms(rows: list[dict]) -> str:
    """Producers beside groups that are calm, and beside groups in a storm."""
    titles = ["protocol", "broker", "p99 calm", "p99 in the storm", "ratio: median", "smallest to largest"]
    titles += ["members that left/s", "joins/s", "CPU of the broker", "calm again after"]
    lines = [_line(titles), _line(["---"] * len(titles))]
    for row in rows:
        calm, storm = row["calm_p99_ms"], row["storm_p99_ms"]
        ratios = [there / here for here, there in zip(calm, storm) if here and there]
        cells = [row["protocol"], row["broker"], _list(calm), _list(storm)]
        cells += [f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"] if ratios else ["-", "-"]
        cells += [f"{row['left_s']:.0f}", f"{row['joins_s']:,.0f}", f"{row['cpu_share']:.0%} of a core"]
        cells += [f"{row['calm_again_s']:.1f} s"]
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def _list(values: list[float | None]) -> str:
    shown = ("-" if value is None else f"{value:.1f}" for value in values)
    return f"{', '.join(shown)} ms"
