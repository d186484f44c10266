"""Waiting for what must come to be: each wait has a limit, and says what it waited for."""
import time

PAUSE_S = 0.02


class Missed(Exception):
    """What a check expected did not come to be."""


def until(what, reached, seconds):
    """For what can only be asked for; who can be told, waits on a condition."""
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > end:
            raise Missed(f"not within {seconds} s: {what}")
        time.sleep(PAUSE_S)
