"""What the figures depend on: machine, kernel, versions. `loadgen versus` also says what a flush costs here."""

import os
import platform
import subprocess
from pathlib import Path

def describe(corelog: str, origin: str, kafka_version: str) -> dict[str, str]:
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "cpus": f"{os.cpu_count()} x {_cpu_model()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
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


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.partition("\n")[0].strip()
