"""What each Python member of a group asks for and says; README.md beside the clients' folders says what that means."""
import signal
import sys
import threading

SESSION_MS = 6_000
HEARTBEAT_MS = 500
METADATA_AGE_MS = 1_000
BATCH_MAX = 200

_stopping = threading.Event()


def stop_on_sigterm():
    signal.signal(signal.SIGTERM, lambda *_: _stopping.set())


def stopping():
    return _stopping.is_set()


def say(*words):
    print(*words, flush=True)


def assigned(partitions):
    say("assigned", ",".join(map(str, sorted(partitions))))


def processed(partition, offsets):
    say("records", partition, offsets[0], offsets[-1], len(offsets))


def committed(partition, next_offset):
    say("committed", partition, next_offset)


def problem(what):
    """For the log alone: what was not committed is only processed again."""
    print(what, file=sys.stderr, flush=True)
