"""kafka-python against a broker. Usage: kafkapython.py HOST:PORT TOPIC-PREFIX"""
import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import InvalidConfigurationError, MessageSizeTooLargeError, UnknownTopicOrPartitionError

from records import CODECS, COUNT, PARTITIONS, START_MS, check, expect, record, soon

bootstrap, prefix = sys.argv[1:]
admin = KafkaAdminClient(bootstrap_servers=bootstrap)


def create(topic, partitions=PARTITIONS, **config):
    admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=config)])


def fails_with(kind, work):
    try:
        work()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was expected")


def consumer():
    return KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False,
                         consumer_timeout_ms=20000)


def read(topic, partition, offset):
    reader, got, at = consumer(), [], TopicPartition(topic, partition)
    reader.assign([at])
    end = reader.end_offsets([at])[at]
    reader.seek(at, offset)
    for message in reader:
        got.append((message.key, message.value, list(message.headers), message.timestamp))
        if message.offset + 1 >= end:
            break
    reader.close()
    return got


def check_admin():
    topic = f"{prefix}-admin"
    create(topic, **{"retention.ms": "1000"})
    answers = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    configs = {config[0]: config[1] for config in answers[0].resources[0][4]}
    assert configs["retention.ms"] == "1000" and "segment.bytes" in configs, configs
    admin.create_partitions({topic: NewPartitions(3)})
    soon(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 3)
    admin.delete_topics([topic])
    soon(lambda: topic not in admin.list_topics())


def check_codec(codec):
    topic = f"{prefix}-{codec}"
    create(topic)
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, acks="all",
                             compression_type=None if codec == "none" else codec)
    futures = []
    for number in range(COUNT):
        key, value, headers, timestamp = record(number)
        futures.append(producer.send(topic, value, key, headers, number % PARTITIONS, timestamp))
    producer.flush(60)
    for future in futures:
        future.get(timeout=20)
    producer.close()
    for partition in range(PARTITIONS):
        expect(partition, read(topic, partition, 0))


def check_offset():
    got = read(f"{prefix}-zstd", 0, 4000)
    assert len(got) == COUNT // PARTITIONS - 4000 and got[0] == record(8000), got[:1]


def check_timestamp():
    reader, topic = consumer(), f"{prefix}-gzip"
    first, second = TopicPartition(topic, 1), TopicPartition(topic, 0)
    found = reader.offsets_for_times({first: START_MS + 5000, second: START_MS + COUNT})
    assert found[first].offset == 2500 and found[second] is None, found
    reader.close()


def check_errors():
    fails_with(InvalidConfigurationError, lambda: create(f"{prefix}-bad", **{"retention.ms": "soon"}))
    fails_with(UnknownTopicOrPartitionError, lambda: admin.delete_topics([f"{prefix}-missing"]))
    create(f"{prefix}-small", **{"max.message.bytes": "1000"})
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    fails_with(MessageSizeTooLargeError,
               lambda: producer.send(f"{prefix}-small", b"x" * 5000).get(timeout=20))


check("admin", check_admin)
for codec in CODECS:
    check(codec, lambda: check_codec(codec))
check("offset", check_offset)
check("timestamp", check_timestamp)
check("errors", check_errors)
print("CHECK idempotent - kafka-python 2.0 has no idempotent producer")
