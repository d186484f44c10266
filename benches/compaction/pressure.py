"""Keeps a cleaner at work for as long as something else is measured. Knows nothing of what that is."""

import threading
import time
from collections.abc import Callable

from cleaner import Cleaner

POLL_SECONDS = 0.1
# So many topics are due at once, so that the cleaner finds the next one when it is through with one.
DUE = 2


class Pressure:
    """While the block runs, topics that were fed become due one after the other."""

    def __init__(self, cleaner: Cleaner, topics: list[str], make_due: Callable[[str], None]):
        self.cleaner, self.make_due = cleaner, make_due
        self._waiting, self._due = list(topics), []
        self._end = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.ran_out_at: float | None = None

    def __enter__(self) -> "Pressure":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._end.set()
        self._thread.join()
        if self._error:
            raise self._error

    def _follow(self) -> None:
        try:
            while not self._end.is_set():
                self.cleaner.look()
                self._due = [topic for topic in self._due if not self.cleaner.is_clean(topic)]
                while self._waiting and len(self._due) < DUE:
                    self._due.append(self._waiting.pop(0))
                    self.make_due(self._due[-1])
                if not self._due and self.ran_out_at is None:
                    self.ran_out_at = time.monotonic()
                time.sleep(POLL_SECONDS)
        # Raised where the block ends.
        except Exception as error:  # noqa: BLE001
            self._error = error
