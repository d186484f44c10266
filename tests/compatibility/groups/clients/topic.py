"""The topic that a group reads: made, filled and grown by confluent-kafka, which also says what the group has committed.

Knows nothing of members.
"""
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from waiting import Missed, until

ASK_S = 60
# How much a flow sends at once.
PORTION = 200


class Topic:
    def __init__(self, bootstrap, name, partitions):
        self.bootstrap, self.name, self.partitions = bootstrap, name, partitions
        self.sent = 0
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.finish_asking(self.admin.create_topics([NewTopic(name, partitions, 1)]))
        self.wait_for_partitions()

    def grow(self, partitions):
        self.finish_asking(self.admin.create_partitions([NewPartitions(self.name, partitions)]))
        self.partitions = partitions
        self.wait_for_partitions()

    def finish_asking(self, futures):
        for future in futures.values():
            future.result(timeout=ASK_S)

    def wait_for_partitions(self):
        def described():
            known = self.admin.list_topics(self.name, timeout=ASK_S).topics[self.name]
            return len(known.partitions) == self.partitions

        until(f"{self.name} has {self.partitions} partitions", described, ASK_S)

    def send(self, count):
        """Sends records to all partitions in turn, and returns when all are acknowledged."""
        Flow(self, count).finish()

    def flow(self, count, per_second):
        """Begins to send records at a pace."""
        flow = Flow(self, count, per_second)
        flow.start()
        return flow

    def committed(self, group):
        """What the broker has as committed by the group, and where each partition ends."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        try:
            asked = [TopicPartition(self.name, it) for it in range(self.partitions)]
            found = {it.partition: max(it.offset, 0) for it in consumer.committed(asked, timeout=ASK_S)}
            ends = {it.partition: consumer.get_watermark_offsets(it, timeout=ASK_S)[1] for it in asked}
            return found, ends
        finally:
            consumer.close()


class Flow(threading.Thread):
    """Records on their way to a topic: at a pace first, then, from `finish`, the rest at once."""

    def __init__(self, topic, count, per_second=None):
        super().__init__(daemon=True)
        self.topic, self.count, self.per_second = topic, count, per_second
        self.hurry = threading.Event()
        self.failures = []
        self.producer = Producer({
            "bootstrap.servers": topic.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 1_000,
            "log_level": 0,
        })

    def run(self):
        begun = time.monotonic()
        for number in range(self.count):
            if number % PORTION == 0:
                due = begun + number / self.per_second
                self.hurry.wait(max(0, due - time.monotonic()))
            self.produce(number)

    def produce(self, number):
        partition = number % self.topic.partitions
        self.producer.produce(self.topic.name, b"record %d" % number, partition=partition, on_delivery=self.delivered)
        self.producer.poll(0)

    def delivered(self, failure, _):
        if failure:
            self.failures.append(failure)

    def finish(self):
        """Sends what is left, and returns when all is acknowledged."""
        self.hurry.set()
        if self.per_second is None:
            for number in range(self.count):
                self.produce(number)
        else:
            self.join()
        left = self.producer.flush(ASK_S)
        if left or self.failures:
            raise Missed(f"not acknowledged within {ASK_S} s: {left} records; refused: {self.failures[:3]}")
        self.topic.sent += self.count
