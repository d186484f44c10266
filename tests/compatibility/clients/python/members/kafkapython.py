"""kafka-python as a member. Usage: kafkapython.py HOST:PORT TOPIC GROUP classic ASSIGNOR"""
import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

import lines

bootstrap, topic, group, _, assignor = sys.argv[1:]
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    """Is called in a poll, when all that was polled before is committed."""

    def on_partitions_revoked(self, revoked):
        lines.assigned(())

    def on_partitions_assigned(self, assigned):
        lines.assigned(at.partition for at in assigned)


def process(polled):
    ends = {}
    for at, records in polled.items():
        lines.processed(at.partition, [record.offset for record in records])
        ends[at.partition] = records[-1].offset + 1
    offsets = {TopicPartition(topic, it): OffsetAndMetadata(end, "") for it, end in ends.items()}
    try:
        consumer.commit(offsets)
    except KafkaError as failure:
        lines.problem(f"not committed: {failure!r}")
        return
    for partition, end in ends.items():
        lines.committed(partition, end)


lines.stop_on_sigterm()
consumer = KafkaConsumer(
    bootstrap_servers=bootstrap,
    api_version_auto_timeout_ms=30_000,
    group_id=group,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    session_timeout_ms=lines.SESSION_MS,
    heartbeat_interval_ms=lines.HEARTBEAT_MS,
    metadata_max_age_ms=lines.METADATA_AGE_MS,
    reconnect_backoff_max_ms=1_000,
    max_poll_records=lines.BATCH_MAX,
    partition_assignment_strategy=[ASSIGNORS[assignor]],
)
consumer.subscribe([topic], listener=Listener())
while not lines.stopping():
    polled = consumer.poll(100)
    if polled:
        process(polled)
consumer.close()
