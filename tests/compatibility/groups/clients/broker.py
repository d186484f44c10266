"""A corelog of its own, which can be killed and started again where it was. Knows no group."""
import os
import socket
import subprocess

from waiting import Missed, until

START_S = 60
END_S = 60
# What corelog prints first when clients are served.
SERVING = "  listener "


def free_port(first):
    """Below the ports from which clients connect: one that looks for a broker which is away must not meet itself."""
    for port in range(first, 30_000):
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            continue
    raise Missed("no port is free")


class Broker:
    def __init__(self, program, folder, port):
        self.program, self.folder = program, folder
        self.address = f"127.0.0.1:{port}"
        self.log = os.path.join(folder, "broker.log")
        self.process = None
        self.ended = False

    def start(self):
        if self.ended:
            raise Missed("the broker is ended")
        environment = dict(
            os.environ,
            CORELOG_GROUPS__INITIAL_REBALANCE_DELAY_MS="500",
            CORELOG_GROUPS__CONSUMER_SESSION_TIMEOUT_MS="6000",
            CORELOG_GROUPS__CONSUMER_HEARTBEAT_INTERVAL_MS="500",
        )
        command = [self.program, "serve", "--listen", self.address, "--shards", "2",
                   "--data", os.path.join(self.folder, "data")]
        with open(self.log, "ab") as log:
            said_before = log.tell()
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        until("the broker serves", lambda: self.serves(said_before), START_S)

    def serves(self, said_before):
        if self.process.poll() is not None:
            raise Missed(f"the broker has ended: see {self.log}")
        with open(self.log, errors="replace") as log:
            log.seek(said_before)
            return SERVING in log.read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.ended = True
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()


class Running:
    """A broker that somebody else has started, and that cannot be killed."""

    kill = None

    def __init__(self, address):
        self.address = address

    def start(self):
        pass

    def end(self):
        pass
