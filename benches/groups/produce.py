"""Producers beside the members: what `loadgen` measures of them. Knows nothing of groups."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import processes
from brokers import Broker
from cases import Settings

# Beyond the measured time: the warm-up, the start, and waiting for what is late.
SECONDS_SPARE = 60
WARM_UP = "2s"


@dataclass(frozen=True)
class Produced:
    """`p99_ms` is none when records were unanswered at the end. `invalid` says why the generator itself doubts it."""

    p50_ms: float | None
    p99_ms: float | None
    failed: int
    invalid: list[str]


def measure(program: str, broker: Broker, chosen: Settings, work: Path) -> Produced:
    """One run at a fixed rate, each record counted from when it was due (open loop), acks=all, 1 KiB."""
    output = work / "produced"
    shutil.rmtree(output, ignore_errors=True)
    command = [program, "run", "steady", "-b", broker.address, "-o", str(output), "--quiet"]
    command += ["--rate", chosen.produce_rate, "--duration", f"{chosen.produce_seconds}s", "--warm-up", WARM_UP]
    log = work / "logs" / "loadgen.log"
    with processes.started(command, log, stdout=subprocess.DEVNULL) as process:
        code = process.wait(chosen.produce_seconds + SECONDS_SPARE)
    result = output / "result.json"
    # It leaves a result also when it doubts it, or when records are missing.
    if not result.exists():
        raise RuntimeError(f"loadgen failed with {code}; see {log}")
    said = json.loads(result.read_text())
    latency = said["latency"]["produce"]
    return Produced(_ms(latency["p50"]), _ms(latency["p99"]), said["counts"]["failed"], said["invalid"])


def _ms(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6
