"""confluent-kafka (librdkafka) as a member. Usage: confluent.py HOST:PORT TOPIC GROUP PROTOCOL ASSIGNOR"""
import sys

from confluent_kafka import Consumer, KafkaException, TopicPartition

import lines

bootstrap, topic, group, protocol, assignor = sys.argv[1:]
PROTOCOLS = {
    "classic": {
        "partition.assignment.strategy": assignor,
        "session.timeout.ms": lines.SESSION_MS,
        "heartbeat.interval.ms": lines.HEARTBEAT_MS,
    },
    # The broker has the timeouts.
    "consumer": {"group.protocol": "consumer", "group.remote.assignor": assignor},
}
consumer = Consumer({
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "topic.metadata.refresh.interval.ms": lines.METADATA_AGE_MS,
    "reconnect.backoff.max.ms": 1_000,
    **PROTOCOLS[protocol],
})
owned, batch = set(), []
uncommitted = {}  # of each partition, the end of what is processed


def finish():
    """Processes what was polled, and commits it before anything is given up.

    With cooperative-sticky, records come on while the group joins again: a commit is refused then, for the
    generation is over, and is made up for with the next one.
    """
    polled = {}
    for message in batch:
        polled.setdefault(message.partition(), []).append(message.offset())
    batch.clear()
    for partition, offsets in polled.items():
        lines.processed(partition, offsets)
        uncommitted[partition] = offsets[-1] + 1
    ends = [TopicPartition(topic, partition, end) for partition, end in uncommitted.items()]
    if ends:
        commit(ends)


def commit(ends):
    try:
        done = consumer.commit(offsets=ends, asynchronous=False)
    except KafkaException as failure:
        lines.problem(f"not committed: {failure}")
        return
    for end in done:
        if end.error:
            lines.problem(f"not committed: {end}")
        else:
            del uncommitted[end.partition]
            lines.committed(end.partition, end.offset)


def on_assign(_, partitions):
    owned.update(it.partition for it in partitions)
    lines.assigned(owned)


def on_revoke(_, partitions):
    finish()
    lose(partitions)


def on_lost(_, partitions):
    batch.clear()  # somebody else may have these already
    lose(partitions)


def lose(partitions):
    for it in partitions:
        owned.discard(it.partition)
        uncommitted.pop(it.partition, None)
    lines.assigned(owned)


def fill():
    """Polls until nothing more is there; a callback in the middle of it may finish what it has so far."""
    message = consumer.poll(0.1)
    while message is not None:
        if message.error():
            lines.problem(message.error())
        else:
            batch.append(message)
        if len(batch) >= lines.BATCH_MAX:
            break
        message = consumer.poll(0)


lines.stop_on_sigterm()
consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
while not lines.stopping():
    fill()
    finish()
consumer.close()
