#!/usr/bin/env python3
"""Three members of a group, of two client libraries and both group protocols in turn, against a corelog that is killed
meanwhile.

Promises: partitions are shared out again when a member joins, leaves or is killed; each record is processed at least
once, and no commit that was acknowledged is lost.
Usage: members.py CORELOG [KIND ...], with kafka-python and confluent-kafka installed.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PARTITIONS = 6
RECORDS = 600  # per partition, in two halves
WAIT_S = 120


def free_port():
    """Below the ports from which clients connect: one that looks for a broker which is away must not meet itself."""
    for port in range(20_000 + os.getpid() % 1_000, 30_000):
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            continue
    sys.exit("no port is free")


class Broker:
    def __init__(self, program):
        self.program = program
        self.data = tempfile.mkdtemp(prefix="corelog-members-")
        self.address = "127.0.0.1:%d" % free_port()
        self.start()

    def start(self):
        host, port = self.address.split(":")
        self.spawn()
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            try:
                socket.create_connection((host, int(port)), 1).close()
                answered = True
            except OSError:
                answered = False
            # The kernel may hold a killed broker's listener for a moment longer than the process: it takes
            # connections still, and the next broker finds its address taken.
            time.sleep(1 if answered else 0.02)
            if self.process.poll() is not None:
                self.spawn()
            elif answered:
                return
        sys.exit("the broker does not answer")

    def spawn(self):
        environment = dict(
            os.environ,
            CORELOG_GROUPS__INITIAL_REBALANCE_DELAY_MS="500",
            CORELOG_GROUPS__CONSUMER_SESSION_TIMEOUT_MS="10000",
            CORELOG_GROUPS__CONSUMER_HEARTBEAT_INTERVAL_MS="500",
        )
        self.process = subprocess.Popen(
            [self.program, "serve", "--listen", self.address, "--shards", "2", "--data", self.data],
            env=environment,
            stderr=subprocess.DEVNULL,
        )

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.data, ignore_errors=True)


class KafkaPython:
    name = "kafka-python"

    def __init__(self, address, group, topic):
        from kafka import KafkaConsumer

        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=address,
            bootstrap_timeout_ms=60_000,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=500,
            max_poll_records=20,
        )

    def poll(self):
        polled = self.consumer.poll(200)
        return [(at.partition, record.offset) for at, records in polled.items() for record in records]

    def commit(self):
        self.consumer.commit()

    def owned(self):
        return {at.partition for at in self.consumer.assignment()}

    def close(self):
        self.consumer.close()


class Confluent:
    name = "confluent-kafka"
    protocol = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}

    def __init__(self, address, group, topic):
        from confluent_kafka import Consumer

        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **self.protocol,
            }
        )
        self.consumer.subscribe([topic])

    def poll(self):
        messages = self.consumer.consume(20, 0.2)
        return [(it.partition(), it.offset()) for it in messages if it.error() is None]

    def commit(self):
        self.consumer.commit(asynchronous=False)

    def owned(self):
        return {at.partition for at in self.consumer.assignment()}

    def close(self):
        self.consumer.close()


class ConfluentNew(Confluent):
    """The same by the new consumer protocol (KIP-848), in which the broker has the timeouts."""

    name = "confluent-kafka-848"
    protocol = {"group.protocol": "consumer"}


KINDS = {kind.name: kind for kind in (KafkaPython, Confluent, ConfluentNew)}


class Shared:
    """What all members have done together."""

    def __init__(self):
        self.lock = threading.Lock()
        self.seen = {}
        self.acknowledged = {}


class Member(threading.Thread):
    def __init__(self, kind, address, group, topic, shared):
        super().__init__(daemon=True)
        self.make = lambda: kind(address, group, topic)
        self.shared, self.stopping, self.owned = shared, threading.Event(), set()

    def run(self):
        client = self.make()
        while not self.stopping.is_set():
            records = client.poll()
            self.owned = client.owned()
            if not records:
                continue
            ends = {}
            with self.shared.lock:
                for record in records:
                    self.shared.seen[record] = self.shared.seen.get(record, 0) + 1
                    ends[record[0]] = max(ends.get(record[0], 0), record[1] + 1)
            try:
                client.commit()
            except Exception:  # the broker is away, or a rebalance: nothing was promised
                continue
            with self.shared.lock:
                for partition, end in ends.items():
                    known = self.shared.acknowledged.get(partition, 0)
                    self.shared.acknowledged[partition] = max(known, end)
        client.close()

    def leave(self):
        self.stopping.set()
        self.join(WAIT_S)


def until(what, reached):
    end = time.monotonic() + WAIT_S
    while not reached():
        if time.monotonic() > end:
            sys.exit("not reached in %d s: %s" % (WAIT_S, what))
        time.sleep(0.05)


def patiently(make):
    """A client, which gives up after two seconds of a broker that starts; a busy machine needs longer."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            return make()
        except Exception:
            if time.monotonic() > end:
                raise


def produce(address, topic, numbers):
    from kafka import KafkaProducer

    producer = patiently(lambda: KafkaProducer(bootstrap_servers=address, acks="all"))
    for number in numbers:
        for partition in range(PARTITIONS):
            producer.send(topic, b"value-%d" % number, partition=partition)
    producer.flush()
    producer.close()


def committed(address, group, topic):
    from kafka import KafkaConsumer, TopicPartition

    consumer = patiently(
        lambda: KafkaConsumer(bootstrap_servers=address, group_id=group, enable_auto_commit=False)
    )
    found = {at: consumer.committed(TopicPartition(topic, at)) or 0 for at in range(PARTITIONS)}
    consumer.close()
    return found


def create(address, topic):
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = patiently(lambda: KafkaAdminClient(bootstrap_servers=address))
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()


def balanced(members):
    owned = [member.owned for member in members]
    return sum(map(len, owned)) == PARTITIONS and set().union(*owned) == set(range(PARTITIONS)) and all(owned)


def check(kind, broker):
    topic, group = "members-" + kind.name, "group-" + kind.name
    create(broker.address, topic)
    shared = Shared()
    start = lambda: Member(kind, broker.address, group, topic, shared)
    members = [start() for _ in range(3)]
    [member.start() for member in members]
    until("three members share the partitions", lambda: balanced(members))
    members.pop().leave()
    until("two members share the partitions", lambda: balanced(members))
    members.append(start())
    members[-1].start()
    until("the third is back", lambda: balanced(members))
    fourth = subprocess.Popen([sys.executable, __file__, "--member", kind.name, broker.address, group, topic])
    until("a fourth has its share", lambda: 0 < sum(len(member.owned) for member in members) < PARTITIONS)
    fourth.kill()
    fourth.wait()
    until("the killed one's share is with the others", lambda: balanced(members))
    produce(broker.address, topic, range(RECORDS // 2))
    until("half of the records are read", lambda: len(shared.seen) >= PARTITIONS * RECORDS // 4)
    broker.kill()
    with shared.lock:
        promised = dict(shared.acknowledged)
    broker.start()
    found = committed(broker.address, group, topic)
    lost = {at: (end, found[at]) for at, end in promised.items() if found[at] < end}
    if lost:
        sys.exit("%s: commits were lost (promised, found): %s" % (kind.name, lost))
    produce(broker.address, topic, range(RECORDS // 2))
    until("all records are read", lambda: len(shared.seen) == PARTITIONS * RECORDS)
    until("three members share the partitions again", lambda: balanced(members))
    [member.leave() for member in members]
    twice = sum(1 for times in shared.seen.values() if times > 1)
    print(
        "%-20s %d records, each read; %d of them again; %d were committed before the kill and stayed so"
        % (kind.name, len(shared.seen), twice, sum(promised.values()))
    )


def member(kind, address, group, topic):
    """A member that lives until it is killed."""
    client = KINDS[kind](address, group, topic)
    while True:
        client.poll()


def main():
    if sys.argv[1] == "--member":
        member(*sys.argv[2:])
    broker = Broker(sys.argv[1])
    try:
        for name in sys.argv[2:] or KINDS:
            check(KINDS[name], broker)
    finally:
        broker.end()


main()
