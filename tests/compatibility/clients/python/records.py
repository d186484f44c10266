"""What every driver sends and expects to read back, and how it reports. Knows no client."""
import sys
import time
import traceback

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COUNT = 10_000
# A minute ago: old records are not kept.
START_MS = int(time.time() * 1000) - 60_000
PARTITIONS = 2


def record(number):
    """Key, value, headers and timestamp of a record; the partition is its number modulo PARTITIONS."""
    key = b"key-%d" % number
    value = b"value-%d-" % number + b"x" * (number % 50)
    headers = [("number", b"%d" % number), ("empty", b"")]
    return key, value, headers, START_MS + number


def expect(partition, got):
    """Compares (key, value, headers, timestamp) tuples read from a partition with what was sent."""
    wanted = [record(number) for number in range(partition, COUNT, PARTITIONS)]
    assert len(got) == len(wanted), f"partition {partition}: {len(got)} records, not {len(wanted)}"
    for offset, (have, want) in enumerate(zip(got, wanted)):
        assert have == want, f"partition {partition}, offset {offset}: {have} is not {want}"


def soon(holds):
    """Waits up to 5 s until it holds: Kafka answers a change before every broker shows it."""
    for _ in range(50):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("not true within 5 s")


def check(name, work):
    """Runs one check and prints its line for the matrix."""
    try:
        work()
        print(f"CHECK {name} ok", flush=True)
    except Exception as problem:  # the suite goes on with the other checks
        traceback.print_exc(file=sys.stdout)
        print(f"CHECK {name} FAIL {problem!r}", flush=True)
