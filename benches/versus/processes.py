"""Started programs: an end for each of them whatever happens, and what /proc says about them."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

STOP_SECONDS_MAX = 30


@contextlib.contextmanager
def started(command: list[str], log: Path, env: dict[str, str] | None = None, stdout=None):
    """Runs a program while the block runs. Its own process group keeps Ctrl-C for us to pass on, in order."""
    with log.open("ab") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink if stdout is None else stdout,
            stderr=sink,
            env={**os.environ, **(env or {})},
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen) -> None:
    """Asks a program to end; one that does not within the time is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        if process.stdout:
            process.stdout.close()


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads since the start, those that have ended included."""
    # The second field is the program's name in parentheses and may hold spaces: count from behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user_ticks, system_ticks = int(fields[11]), int(fields[12])
    return (user_ticks + system_ticks) / os.sysconf("SC_CLK_TCK")


def reset_peak_rss(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_rss_mib(pid: int) -> float:
    """The largest resident size since the last reset (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmHWM: it has ended")
