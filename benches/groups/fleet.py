"""The members as a process (main.rs): starts it, follows the lines that it prints, raises storms. Knows nothing of
what is made of its figures."""

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import processes
from brokers import Broker
from cases import Settings, Shape

CONNECT_SECONDS_MAX = 60
STABLE_SECONDS_MAX = 120
ANSWER_SECONDS_MAX = 10


class Fleet:
    def __init__(self, process: subprocess.Popen):
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        # The pipe is closed under this thread when the members are stopped.
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                self._lines.put(line)
        self._lines.put("")

    def wait_for(self, event: str, seconds_max: float) -> dict:
        """The next line of this kind; those before it are passed over."""
        while True:
            try:
                line = self._lines.get(timeout=seconds_max)
            except queue.Empty:
                raise RuntimeError(f"the members have not said '{event}' within {seconds_max} s") from None
            if not line:
                raise RuntimeError("the members have ended")
            said = json.loads(line)
            if said["event"] == event:
                return said

    def stable(self) -> dict:
        try:
            return self.wait_for("stable", STABLE_SECONDS_MAX)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {self.figures()}") from None

    def figures(self) -> dict:
        """What has happened since the last line."""
        self.process.send_signal(signal.SIGUSR2)
        return self.wait_for("figures", ANSWER_SECONDS_MAX)

    def begin_storm(self) -> None:
        self.process.send_signal(signal.SIGUSR1)
        self.wait_for("storm", ANSWER_SECONDS_MAX)

    def end_storm(self) -> dict:
        """The figures of the storm."""
        self.process.send_signal(signal.SIGUSR1)
        return self.wait_for("calm", ANSWER_SECONDS_MAX)


@contextlib.contextmanager
def joining(program: str, broker: Broker, shape: Shape, protocol: str, chosen: Settings, log: Path):
    """Members that join while the block begins."""
    command = [program, "--broker", broker.address, "--protocol", protocol]
    command += ["--groups", str(shape.groups), "--members", str(shape.members), "--partitions", str(shape.partitions)]
    command += ["--gust-every-ms", str(chosen.gust_every_ms), "--gust-groups", str(chosen.gust_groups)]
    with processes.started(command, log, stdout=subprocess.PIPE) as process:
        fleet = Fleet(process)
        try:
            fleet.wait_for("connected", CONNECT_SECONDS_MAX)
            yield fleet
        except RuntimeError:
            print(f"the members' complaints are in {log}", file=sys.stderr)
            raise
