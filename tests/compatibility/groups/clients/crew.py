"""The members of one group: processes that say by lines what they own, have processed and have committed.

README.md of the clients' folders says how they are started and what the lines mean. Knows no client and no broker.
"""
import os
import signal
import subprocess
import threading
import time

from waiting import Missed

LEAVE_S = 30


class Member:
    def __init__(self, crew, command, log_name):
        self.crew = crew
        self.owned, self.owned_to_the_end = set(), set()
        self.processed = []  # (partition, first offset, last offset)
        self.told_to_end = False
        self.log_name = log_name
        with open(log_name, "wb") as log:
            # A group of processes of its own, so that it can be killed whole.
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            text=True, start_new_session=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.endswith("\n"):  # of a line that a kill cut short, nothing is known
                self.crew.hear(self, line.split())
        self.process.wait()
        self.crew.tell()

    def has_processed(self, partition, offset):
        return any(at == partition and first <= offset <= last for at, first, last in self.processed)

    def kill(self):
        self.told_to_end = True
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.reader.join(LEAVE_S)


class Crew:
    def __init__(self, command, log_folder, name):
        self.command, self.log_folder, self.name = command, log_folder, name
        self.changed = threading.Condition()
        self.alive, self.hired = [], 0
        self.seen = {}  # of each partition, a byte for each offset: how often it was processed
        self.distinct = 0
        self.left = []
        self.again = []  # (partition, offset) of each time that a record was processed once more
        self.promised = {}  # what the members were told is committed
        self.faults = []
        self.dismissed = False

    def hire(self, count=1):
        for _ in range(count):
            with self.changed:
                if self.dismissed:
                    raise Missed("all members are dismissed")
                self.hired += 1
                log_name = os.path.join(self.log_folder, f"{self.name}.{self.hired}.log")
                self.alive.append(Member(self, self.command, log_name))

    def hear(self, member, words):
        with self.changed:
            match words:
                case ["assigned", *partitions]:
                    member.owned = {int(it) for it in ",".join(partitions).split(",") if it}
                case ["records", *numbers] if len(numbers) == 4:
                    self.count(member, *map(int, numbers))
                case ["committed", partition, next_offset]:
                    known = self.promised.get(int(partition), 0)
                    self.promised[int(partition)] = max(known, int(next_offset))
                case _:
                    self.faults.append(f"a member says what nobody understands: {' '.join(words)}")
            self.changed.notify_all()

    def count(self, member, partition, first, last, count):
        if count != last - first + 1:
            self.faults.append(f"{count} records from {first} to {last} of partition {partition}")
        member.processed.append((partition, first, last))
        seen = self.seen.setdefault(partition, bytearray())
        seen.extend(bytes(max(0, last + 1 - len(seen))))
        for offset in range(first, last + 1):
            if seen[offset]:
                self.again.append((partition, offset))
            else:
                self.distinct += 1
            seen[offset] = min(seen[offset] + 1, 255)

    def dropped(self):
        """How many records nobody has processed, but later ones, of partitions whose owner left: one for each leaver."""
        given_up = set().union(*(it.owned_to_the_end for it in self.left))
        return min(len(self.left), sum(self.seen[it].count(0) for it in given_up if it in self.seen))

    def tell(self):
        with self.changed:
            self.changed.notify_all()

    def wait(self, what, reached, seconds):
        """Waits until something holds of what the members say. A fault or a member's unexpected end ends the wait."""
        end = time.monotonic() + seconds
        with self.changed:
            while not reached():
                self.complain()
                left = end - time.monotonic()
                if left <= 0:
                    raise Missed(f"not within {seconds} s: {what}; {self.state()}")
                self.changed.wait(left)
            self.complain()

    def complain(self):
        if self.faults:
            raise Missed(self.faults[0])
        for member in self.alive:
            if member.process.poll() is not None and not member.told_to_end:
                raise Missed(f"a member has ended with {member.process.returncode}: see {member.log_name}")

    def state(self):
        shares = " ".join(str(sorted(it.owned)).replace(" ", "") for it in self.alive)
        return f"{self.distinct} records processed, {len(self.again)} again; shares: {shares}"

    def shares(self, partitions):
        """Whether each partition belongs to just one member, and each member has some."""
        owned = [it.owned for it in self.alive]
        return all(owned) and sum(map(len, owned)) == partitions and set().union(*owned) == set(range(partitions))

    def leave(self, *leaving):
        """Members end as their client wants it, with nothing left to say."""
        for member in leaving:
            member.told_to_end = True
            member.owned_to_the_end = set(member.owned)
            member.process.terminate()
        ended = lambda: all(it.process.poll() is not None for it in leaving)  # noqa: E731
        self.wait(f"{len(leaving)} members end", ended, LEAVE_S)
        for member in leaving:
            member.reader.join(LEAVE_S)
            self.alive.remove(member)
            self.left.append(member)
            if member.process.returncode:
                raise Missed(f"a member left with {member.process.returncode}: see {member.log_name}")

    def kill(self, member):
        member.kill()
        self.alive.remove(member)

    def dismiss(self):
        """For good: whatever goes on meanwhile, no member is left."""
        with self.changed:
            self.dismissed = True
        for member in self.alive:
            member.kill()
