"""Producers beside a cleaner: what `loadgen` measures of them. Knows nothing of cleaning."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import processes
from brokers import Broker
from cases import Settings

# Beyond the measured time: the start, and waiting for what is late.
SECONDS_SPARE = 60
WARM_UP_SECONDS = 2


@dataclass(frozen=True)
class Produced:
    """Quantiles are none when too many records were unanswered at the end. `invalid` says why the generator itself
    doubts it."""

    p50_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    failed: int
    invalid: list[str]


def measure(program: str, broker: Broker, chosen: Settings, work: Path) -> Produced:
    """One run at a fixed rate, each record counted from when it was due (open loop), acks=all, 1 KiB."""
    output = work / "produced"
    shutil.rmtree(output, ignore_errors=True)
    command = [program, "run", "steady", "-b", broker.address, "-o", str(output), "--quiet"]
    command += ["--rate", chosen.produce_rate, "--duration", f"{chosen.produce_seconds}s", "--warm-up", f"{WARM_UP_SECONDS}s"]
    log = work / "logs" / "loadgen.log"
    with processes.started(command, log, stdout=subprocess.DEVNULL) as process:
        code = process.wait(chosen.produce_seconds + SECONDS_SPARE)
    result = output / "result.json"
    # It leaves a result also when it doubts it, or when records are missing.
    if not result.exists():
        raise RuntimeError(f"loadgen failed with {code}; see {log}")
    said = json.loads(result.read_text())
    latency = said["latency"]["produce"]
    quantiles = [_ms(latency[key]) for key in ("p50", "p99", "p999")]
    return Produced(*quantiles, said["counts"]["failed"], said["invalid"])


def _ms(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6
