"""aiokafka against a broker. Usage: aio.py HOST:PORT TOPIC-PREFIX"""
import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import MessageSizeTooLargeError

from records import CODECS, COUNT, PARTITIONS, START_MS, check, expect, record

bootstrap, prefix = sys.argv[1:]


async def with_admin(work):
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return await work(admin)
    finally:
        await admin.close()


async def soon(holds):
    """As records.soon, for what must be awaited."""
    for _ in range(50):
        if await holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not true within 5 s: {holds.__name__}")


async def create(topic, **config):
    new = NewTopic(topic, PARTITIONS, 1, topic_configs=config)
    answer = await with_admin(lambda admin: admin.create_topics([new]))
    return answer.topic_errors[0][1]


async def produce(topic, codec, **settings):
    kind = None if codec == "none" else codec
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=kind, linger_ms=5,
                                acks="all", **settings)
    await producer.start()
    futures = []
    for number in range(COUNT):
        key, value, headers, timestamp = record(number)
        futures.append(await producer.send(topic, value, key, number % PARTITIONS, timestamp, headers))
    await asyncio.gather(*futures)
    await producer.stop()


async def read(topic, partition, offset):
    reader, got, at = AIOKafkaConsumer(bootstrap_servers=bootstrap), [], TopicPartition(topic, partition)
    await reader.start()
    reader.assign([at])
    end = (await reader.end_offsets([at]))[at]
    reader.seek(at, offset)
    while not got or last + 1 < end:
        message = await asyncio.wait_for(reader.getone(), 20)
        last = message.offset
        got.append((message.key, message.value, list(message.headers), message.timestamp))
    await reader.stop()
    return got


async def check_admin():
    topic = f"{prefix}-admin"
    assert await create(topic) == 0
    await with_admin(lambda admin: admin.create_partitions({topic: NewPartitions(3)}))

    async def grown():
        described = await with_admin(lambda admin: admin.describe_topics([topic]))
        return len(described[0]["partitions"]) == 3

    async def gone():
        return topic not in await with_admin(lambda admin: admin.list_topics())

    await soon(grown)
    await with_admin(lambda admin: admin.delete_topics([topic]))
    await soon(gone)


async def check_codec(codec):
    topic = f"{prefix}-{codec}"
    assert await create(topic) == 0
    await produce(topic, codec)
    for partition in range(PARTITIONS):
        expect(partition, await read(topic, partition, 0))


async def check_idempotent():
    topic = f"{prefix}-idempotent"
    assert await create(topic) == 0
    await produce(topic, "lz4", enable_idempotence=True)
    for partition in range(PARTITIONS):
        expect(partition, await read(topic, partition, 0))


async def check_offset():
    got = await read(f"{prefix}-zstd", 0, 4000)
    assert len(got) == COUNT // PARTITIONS - 4000 and got[0] == record(8000), got[:1]


async def check_timestamp():
    reader, topic = AIOKafkaConsumer(bootstrap_servers=bootstrap), f"{prefix}-gzip"
    await reader.start()
    first, second = TopicPartition(topic, 1), TopicPartition(topic, 0)
    found = await reader.offsets_for_times({first: START_MS + 5000, second: START_MS + COUNT})
    await reader.stop()
    assert found[first].offset == 2500 and found[second] is None, found


async def check_errors():
    assert await create(f"{prefix}-bad", **{"retention.ms": "soon"}) == 40
    assert await create(f"{prefix}-small", **{"max.message.bytes": "1000"}) == 0
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        await producer.send_and_wait(f"{prefix}-small", b"x" * 5000)
    except MessageSizeTooLargeError:
        return
    finally:
        await producer.stop()
    raise AssertionError("MessageSizeTooLargeError was expected")


check("admin", lambda: asyncio.run(check_admin()))
for codec in CODECS:
    check(codec, lambda: asyncio.run(check_codec(codec)))
check("idempotent", lambda: asyncio.run(check_idempotent()))
check("offset", lambda: asyncio.run(check_offset()))
check("timestamp", lambda: asyncio.run(check_timestamp()))
check("errors", lambda: asyncio.run(check_errors()))
