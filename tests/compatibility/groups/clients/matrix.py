"""Groups of each client, by each protocol and assignor that it has: prints a matrix of what they go through, and fails
on any miss. README.md beside this file says more.

Usage: matrix.py [--corelog PROGRAM | --bootstrap HOST:PORT] [--lanes N] --work DIR [CLIENT ...]
"""
import argparse
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
import time

from broker import Broker, Running, free_port
from crew import Crew
from scenario import CHECKS, PARTITIONS, Scenario
from topic import Topic
from waiting import Missed

CLIENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients")
# Client, its folder, protocol, assignors.
KINDS = (
    ("confluent", "python", "classic", ("range", "roundrobin", "cooperative-sticky")),
    ("confluent", "python", "consumer", ("uniform", "range")),
    ("kafkapython", "python", "classic", ("range", "roundrobin", "sticky")),
    ("aio", "python", "classic", ("range", "roundrobin", "sticky")),
    ("kcat", "kcat", "classic", ("range", "roundrobin")),
    ("franz-go", "go", "classic", ("range", "roundrobin", "sticky", "cooperative-sticky")),
    ("franz-go", "go", "consumer", ("uniform", "range")),
    ("sarama", "go", "classic", ("range", "roundrobin", "sticky", "cooperative-sticky")),
    ("kafkajs", "node", "classic", ("roundrobin",)),
)
# kcat commits what librdkafka has given it, and does not print the last of it once it is told to end.
DROPPING = ("kcat",)
LOG_TAIL_LINES = 15


class Cell:
    """A row of the matrix."""

    def __init__(self, client, folder, protocol, assignor):
        self.client, self.folder, self.protocol, self.assignor = client, folder, protocol, assignor
        self.name = f"{client}-{protocol}-{assignor}"
        self.outcomes = {}
        self.again = []  # after each check, how often records had been processed once more
        self.crew = None

    def go_through(self, broker, logs):
        begun = time.monotonic()
        topic_name, group = f"groups-{self.name}-{os.getpid()}", f"group-{self.name}-{os.getpid()}"
        command = [os.path.join(CLIENTS, self.folder, "join"), self.client, broker.address, topic_name, group,
                   self.protocol, self.assignor]
        self.crew = Crew(command, logs, self.name)
        try:
            topic = Topic(broker.address, topic_name, PARTITIONS)
            scenario = Scenario(broker, topic, self.crew, group, self.client in DROPPING)
            scenario.run(self.report)
        except Exception as failure:  # of the driver's own client: a broker that does not answer, for one
            self.outcomes.setdefault("driver", f"FAIL {failure!r}")
        finally:
            self.crew.dismiss()
        print(f"{self.name}: {self.failure() or 'ok'}, {self.crew.distinct} records processed, again after each check: "
              f"{self.again}, {time.monotonic() - begun:.0f} s", flush=True)

    def report(self, check, outcome):
        self.outcomes[check] = outcome
        self.again.append(len(self.crew.again))

    def failure(self):
        """The first thing that failed, after which nothing was reached; None of a group that passed."""
        for check, outcome in self.outcomes.items():
            if outcome.startswith("FAIL"):
                return f"{check}: {outcome[5:]}"
        return None if len(self.outcomes) == len(CHECKS) else "it has not come to its end"

    def row(self):
        cells = [self.outcomes.get(check, "FAIL").split()[0] for check in CHECKS]
        return f"{self.client:12} {self.protocol:9} {self.assignor:19}" + "".join(f"{it:9}" for it in cells)


def lane(broker, cells, logs):
    """Goes through one cell after the other beside one broker; one that cannot start is every cell's failure."""
    try:
        broker.start()
        while True:
            cells.get_nowait().go_through(broker, logs)
    except queue.Empty:
        pass
    except Missed as missed:
        print(missed, flush=True)
    finally:
        broker.end()


def go_through_all(cells, brokers, logs):
    waiting = queue.SimpleQueue()
    for cell in cells:
        waiting.put(cell)
    lanes = [threading.Thread(target=lane, args=(broker, waiting, logs), daemon=True) for broker in brokers]
    for it in lanes:
        it.start()
    for it in lanes:
        it.join()


def print_matrix(cells):
    print(f"\n{'client':12} {'protocol':9} {'assignor':19}" + "".join(f"{check:9}" for check in CHECKS))
    for cell in cells:
        print(cell.row())
    for cell in cells:
        if cell.failure():
            print(f"{cell.name}, {cell.failure()}")


def print_logs(cells, logs):
    for name in sorted(os.listdir(logs)):
        if any(name.startswith(f"{cell.name}.") for cell in cells if cell.failure()):
            with open(os.path.join(logs, name), errors="replace") as log:
                tail = log.readlines()[-LOG_TAIL_LINES:]
            if tail:
                print(f"\n== {name}\n{''.join(tail)}", end="")


def wanted(names):
    known = [Cell(client, folder, protocol, assignor)
             for client, folder, protocol, assignors in KINDS for assignor in assignors]
    cells = [cell for cell in known if not names or any(cell.name.startswith(it) for it in names)]
    if not cells:
        sys.exit(f"no such client; there are: {' '.join(cell.name for cell in known)}")
    return cells


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corelog")
    parser.add_argument("--bootstrap")
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--work", required=True)
    parser.add_argument("clients", nargs="*")
    given = parser.parse_args()
    # So that what was started is ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    logs = os.path.join(given.work, "logs")
    shutil.rmtree(logs, ignore_errors=True)
    os.makedirs(logs)
    cells = wanted(given.clients)
    folder = tempfile.mkdtemp(prefix="corelog-groups-")
    brokers = [Running(given.bootstrap)] if given.bootstrap else corelogs(given, folder)
    try:
        go_through_all(cells, brokers, logs)
    finally:
        for broker in brokers:
            broker.end()
        for cell in cells:
            if cell.crew:
                cell.crew.dismiss()
    print_matrix(cells)
    print_logs(cells, logs)
    failed = sum(bool(cell.failure()) for cell in cells)
    if not failed:
        shutil.rmtree(folder)
    print(f"\n{len(cells) - failed} groups passed, {failed} failed" + (f"; brokers' logs: {folder}" if failed else ""))
    sys.exit(1 if failed else 0)


def corelogs(given, folder):
    brokers, port = [], 20_000 + os.getpid() % 1_000
    for number in range(given.lanes):
        port = free_port(port + 1)
        own = os.path.join(folder, str(number))
        os.makedirs(own)
        brokers.append(Broker(given.corelog, own, port))
    return brokers


main()
