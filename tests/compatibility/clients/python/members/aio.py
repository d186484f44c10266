"""aiokafka as a member. Usage: aio.py HOST:PORT TOPIC GROUP classic ASSIGNOR"""
import asyncio
import sys

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

import lines

bootstrap, topic, group, _, assignor = sys.argv[1:]
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    """Is called by aiokafka's own task while a batch is at work: partitions are given up when that is committed."""

    def __init__(self, at_work):
        self.at_work = at_work

    async def on_partitions_revoked(self, revoked):
        async with self.at_work:
            lines.assigned(())

    async def on_partitions_assigned(self, assigned):
        lines.assigned(at.partition for at in assigned)


async def process(consumer, polled):
    ends = {}
    for at, records in polled.items():
        lines.processed(at.partition, [record.offset for record in records])
        ends[at.partition] = records[-1].offset + 1
    try:
        await consumer.commit({TopicPartition(topic, it): end for it, end in ends.items()})
    except KafkaError as failure:
        lines.problem(f"not committed: {failure!r}")
        return
    for partition, end in ends.items():
        lines.committed(partition, end)


async def poll(consumer):
    try:
        return await consumer.getmany(timeout_ms=100, max_records=lines.BATCH_MAX)
    except KafkaError as failure:
        lines.problem(f"nothing polled: {failure!r}")
        return {}


async def main():
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=lines.SESSION_MS,
        rebalance_timeout_ms=30_000,
        heartbeat_interval_ms=lines.HEARTBEAT_MS,
        metadata_max_age_ms=lines.METADATA_AGE_MS,
        partition_assignment_strategy=(ASSIGNORS[assignor],),
    )
    at_work = asyncio.Lock()
    await consumer.start()
    consumer.subscribe([topic], listener=Listener(at_work))
    while not lines.stopping():
        polled = await poll(consumer)
        # Nothing else runs between the two lines: what was polled is this member's until it lets go of the lock.
        async with at_work:
            if polled:
                await process(consumer, polled)
    await consumer.stop()


lines.stop_on_sigterm()
asyncio.run(main())
