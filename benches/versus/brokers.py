"""The two brokers: how each is started on an empty directory at a given guarantee. Knows no load."""

import base64
import contextlib
import random
import shutil
import socket
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import processes
from jars import BROKER_HEAP, TOOL_HEAP, Jars

START_SECONDS_MAX = 60
# Below the ports that the kernel gives to connections, of which a load may hold thousands.
PORTS = range(12_000, 30_000)
PORTS_TRIED_MAX = 100


@dataclass(frozen=True)
class Broker:
    """A running broker."""

    pid: int
    address: str
    data: Path


@contextlib.contextmanager
def running(name: str, guarantee: str, corelog: str, jars: Jars, work: Path, extra: dict[str, str] | None = None):
    """Runs a broker on an empty directory while the block runs, and removes the directory afterwards. `extra` are
    settings: Kafka's properties, or corelog's environment."""
    data = work / "data"
    shutil.rmtree(data, ignore_errors=True)
    try:
        with running_on(data, name, guarantee, corelog, jars, work, extra) as broker:
            yield broker
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextlib.contextmanager
def running_on(
    data: Path, name: str, guarantee: str, corelog: str, jars: Jars, work: Path, extra: dict[str, str] | None = None
):
    """The same on a directory as it is, which stays."""
    log = work / "logs" / f"{name}-{guarantee}.log"
    data.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    port = free_port()
    if name == "corelog":
        command, env = _corelog(corelog, guarantee, data, port)
        env |= extra or {}
    else:
        command, env = _kafka(jars, guarantee, data, port, log, extra or {})
    with processes.started(command, log, env) as process:
        _wait_until_listening(process, port, log)
        yield Broker(process.pid, f"127.0.0.1:{port}", data)


def _corelog(binary: str, guarantee: str, data: Path, port: int) -> tuple[list[str], dict[str, str]]:
    # Every other setting is the default: a shard per core.
    durability = {"flush": "flush", "none": "replicated"}[guarantee]
    command = [binary, "serve", "--data", str(data), "--listen", f"127.0.0.1:{port}"]
    return command, {"CORELOG_KAFKA__LOG_DURABILITY": durability}


def _kafka(
    jars: Jars, guarantee: str, data: Path, port: int, log: Path, extra: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """One node that is broker and controller. The thread and buffer settings are those of the shipped file."""
    controller_port = free_port()
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data / "logs"),
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "socket.receive.buffer.bytes": "102400",
        "offsets.topic.replication.factor": "1",
        **extra,
    }
    if guarantee == "flush":
        # Each append is flushed before it is answered. The default leaves flushing to the kernel.
        properties["log.flush.interval.messages"] = "1"
    file = data / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    if not (data / "logs" / "meta.properties").exists():
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        format_it = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(file)]
        with log.open("ab") as sink:
            subprocess.run(jars.java(TOOL_HEAP, *format_it), check=True, stdout=sink, stderr=sink, timeout=START_SECONDS_MAX)
    return jars.java(BROKER_HEAP, "kafka.Kafka", str(file), log_level="info"), {}


def free_port() -> int:
    for port in random.sample(PORTS, PORTS_TRIED_MAX):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError(f"none of {PORTS_TRIED_MAX} ports is free")


def _wait_until_listening(process: subprocess.Popen, port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the broker did not start; its log is {log}")
