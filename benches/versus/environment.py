"""What the figures depend on: machine, kernel, file system, cost of a flush, versions."""

import os
import platform
import statistics
import subprocess
import time
from pathlib import Path

FLUSH_PROBES = 200


def describe(directory: Path, corelog: str, origin: str, kafka_version: str) -> dict[str, str]:
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "cpus": f"{os.cpu_count()} x {_cpu_model()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "file_system": _file_system(directory),
        "flush_ms": f"{_flush_ms(directory):.3f}",
        "java": _first_line(["java", "-version"]),
        "kafka": kafka_version,
        "corelog": f"{_first_line([corelog, '--version'])} ({origin})",
    }


def commit(root: Path) -> str:
    commit = _first_line(["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"])
    changed = _first_line(["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"])
    return f"commit {commit}{', with changes' if changed else ''}"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    """Type of the mount that holds the directory: the longest mount point that it begins with."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [mount for mount in mounts if directory.resolve().is_relative_to(mount[0])]
    return max(holding, key=lambda mount: len(mount[0]))[1]


def _flush_ms(directory: Path) -> float:
    """Median time of appending 4 KiB and flushing it, as a broker without preparation would."""
    path = directory / "flush-probe"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    times = []
    for _ in range(FLUSH_PROBES):
        begin = time.perf_counter()
        os.write(descriptor, bytes(4096))
        os.fdatasync(descriptor)
        times.append(time.perf_counter() - begin)
    os.close(descriptor)
    path.unlink()
    return statistics.median(times) * 1e3


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.partition("\n")[0].strip()
