"""confluent-kafka (librdkafka) against a broker. Usage: confluent.py HOST:PORT TOPIC-PREFIX"""
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from records import CODECS, COUNT, PARTITIONS, START_MS, check, expect, record, soon

bootstrap, prefix = sys.argv[1:]
admin = AdminClient({"bootstrap.servers": bootstrap})


def done(futures):
    for future in futures.values():
        future.result(timeout=20)


def create(topic, partitions=PARTITIONS, **config):
    done(admin.create_topics([NewTopic(topic, partitions, 1, config=config)]))


def error_of(work):
    try:
        work()
    except KafkaException as failure:
        return failure.args[0].code()
    raise AssertionError("an error was expected")


def produce(topic, codec, **config):
    failed = []
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, **config}
    if not config.get("enable.idempotence"):
        settings["max.in.flight"] = 1  # a retry would change the order of what is in flight
    producer = Producer(settings)
    for number in range(COUNT):
        key, value, headers, timestamp = record(number)
        partition = number % PARTITIONS
        producer.produce(topic, value, key, partition, timestamp=timestamp, headers=headers,
                         on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
    assert producer.flush(30) == 0 and not failed, failed[:3]


def consumer():
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False,
                     "auto.offset.reset": "error", "enable.partition.eof": True})


def read(topic, partition, offset):
    reader, got = consumer(), []
    reader.assign([TopicPartition(topic, partition, offset)])
    while True:
        message = reader.poll(20)
        assert message is not None, f"nothing more after {len(got)} records"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            break
        got.append((message.key(), message.value(), message.headers(), message.timestamp()[1]))
    reader.close()
    return got


def check_admin():
    topic = f"{prefix}-admin"
    create(topic, **{"retention.ms": "1000"})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(timeout=20)
    assert configs["retention.ms"].value == "1000" and "segment.bytes" in configs
    done(admin.create_partitions([NewPartitions(topic, 3)]))
    soon(lambda: len(admin.list_topics(topic, timeout=20).topics[topic].partitions) == 3)
    done(admin.delete_topics([topic]))
    soon(lambda: topic not in admin.list_topics(timeout=20).topics)


def check_codec(codec):
    topic = f"{prefix}-{codec}"
    create(topic)
    produce(topic, codec)
    for partition in range(PARTITIONS):
        expect(partition, read(topic, partition, 0))


def check_idempotent():
    topic = f"{prefix}-idempotent"
    create(topic)
    produce(topic, "lz4", **{"enable.idempotence": True})
    for partition in range(PARTITIONS):
        expect(partition, read(topic, partition, 0))


def check_offset():
    got = read(f"{prefix}-zstd", 0, 4000)
    assert len(got) == COUNT // PARTITIONS - 4000 and got[0] == record(8000), got[:1]


def check_timestamp():
    reader, topic = consumer(), f"{prefix}-gzip"
    low, high = reader.get_watermark_offsets(TopicPartition(topic, 1), timeout=20)
    assert (low, high) == (0, COUNT // PARTITIONS)
    at = [TopicPartition(topic, 1, START_MS + 5000), TopicPartition(topic, 0, START_MS + COUNT)]
    found = reader.offsets_for_times(at, timeout=20)
    assert [it.offset for it in found] == [2500, -1], found
    reader.close()


def check_errors():
    code = error_of(lambda: create(f"{prefix}-bad", **{"retention.ms": "soon"}))
    assert code == KafkaError.INVALID_CONFIG, code
    code = error_of(lambda: done(admin.delete_topics([f"{prefix}-missing"])))
    assert code == KafkaError.UNKNOWN_TOPIC_OR_PART, code
    create(f"{prefix}-small", **{"max.message.bytes": "1000"})
    codes = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(f"{prefix}-small", b"x" * 5000, partition=0,
                     on_delivery=lambda error, _: codes.append(error and error.code()))
    producer.flush(30)
    assert codes == [KafkaError.MSG_SIZE_TOO_LARGE], codes


check("admin", check_admin)
for codec in CODECS:
    check(codec, lambda: check_codec(codec))
check("idempotent", check_idempotent)
check("offset", check_offset)
check("timestamp", check_timestamp)
check("errors", check_errors)
