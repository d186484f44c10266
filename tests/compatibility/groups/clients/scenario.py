"""What a group of one client goes through: 100,000 records while members come, leave and crash, the topic grows, all of
them stop and come back, and the broker is killed."""
from waiting import Missed

PARTITIONS, PARTITIONS_LATER = 8, 12
# Records of each part, 100,000 in all.
WHILE_MEMBERS_COME_AND_GO = 60_000
WHILE_ONE_CRASHES = 15_000
AFTER_GROWTH = 10_000
WHILE_NOBODY_IS_THERE = 10_000
WHILE_THE_BROKER_CRASHES = 5_000
# So slow that records flow through all of a rebalance.
PER_SECOND = 4_000

BALANCE_S = 40
PROCESS_S = 60
# A session is 6 s: who left must not be missed for so long.
LEAVE_SEEN_S = 5.5

CHECKS = ("join", "leave", "once", "crash", "growth", "resume", "restart")


class Scenario:
    def __init__(self, broker, topic, crew, group, may_drop):
        self.broker, self.topic, self.crew, self.group = broker, topic, crew, group
        # Whether the client drops, when it is told to leave, the record that it has in its hand.
        self.may_drop = may_drop
        self.flow = None

    def run(self, report):
        """Carries out all checks and tells each one's outcome; after one that fails, the others have no ground."""
        for check in CHECKS:
            try:
                report(check, getattr(self, check)() or "ok")
            except Missed as missed:
                report(check, f"FAIL {missed}")
                return

    def join(self):
        self.flow = self.topic.flow(WHILE_MEMBERS_COME_AND_GO, PER_SECOND)
        for more in (2, 1, 2):
            self.crew.hire(more)
            self.balanced(f"{len(self.crew.alive)} members share {PARTITIONS} partitions")

    def leave(self):
        self.crew.leave(self.crew.alive[1])
        self.balanced("the others have the leaver's share before its session would have ended", LEAVE_SEEN_S)

    def once(self):
        self.flow.finish()
        self.all_processed()
        self.none_again(0)

    def crash(self):
        before = len(self.crew.again)
        flow = self.topic.flow(WHILE_ONE_CRASHES, PER_SECOND)
        victim = self.crew.alive[1]
        had = len(victim.processed)
        self.crew.wait("the one to be killed is at work", lambda: len(victim.processed) > had, PROCESS_S)
        self.crew.kill(victim)
        self.balanced("the others have the killed one's share")
        flow.finish()
        self.all_processed()
        strays = [it for it in self.crew.again[before:] if not victim.has_processed(*it)]
        if strays:
            raise Missed(f"processed again, but not the killed one's: {named(strays)}")

    def growth(self):
        before = len(self.crew.again)
        self.topic.grow(PARTITIONS_LATER)
        self.balanced(f"all share {PARTITIONS_LATER} partitions")
        self.topic.send(AFTER_GROWTH)
        self.all_processed()
        self.none_again(before)

    def resume(self):
        before, members = len(self.crew.again), len(self.crew.alive)
        self.crew.leave(*self.crew.alive)
        committed, ends = self.topic.committed(self.group)
        if committed != ends:
            raise Missed(f"all is processed up to {ends}, but committed up to {committed}")
        self.topic.send(WHILE_NOBODY_IS_THERE)
        self.crew.hire(members)
        self.balanced("all are back")
        self.all_processed()
        self.none_again(before)

    def restart(self):
        if self.broker.kill is None:
            return "- this broker is not ours to kill"
        done = self.crew.distinct
        flow = self.topic.flow(WHILE_THE_BROKER_CRASHES, PER_SECOND)
        self.crew.wait("records are processed", lambda: self.crew.distinct > done, PROCESS_S)
        promised, _ = self.topic.committed(self.group)
        self.broker.kill()
        for partition, offset in self.crew.promised.items():
            promised[partition] = max(promised[partition], offset)
        self.broker.start()
        committed, _ = self.topic.committed(self.group)
        lost = {at: (offset, committed[at]) for at, offset in promised.items() if committed[at] < offset}
        if lost:
            raise Missed(f"commits are lost (acknowledged, found): {lost}")
        flow.finish()
        self.all_processed()
        self.balanced("all share the partitions again")

    def balanced(self, what, seconds=BALANCE_S):
        self.crew.wait(what, lambda: self.crew.shares(self.topic.partitions), seconds)

    def all_processed(self):
        """Offsets are dense, so that as many different ones as were sent are all of them."""
        sent = self.topic.sent
        dropped = self.crew.dropped if self.may_drop else lambda: 0
        all_of = f"all of {sent} records are processed"
        self.crew.wait(all_of, lambda: self.crew.distinct + dropped() >= sent, PROCESS_S)
        if self.crew.distinct > sent:
            raise Missed(f"{self.crew.distinct} records are processed, but {sent} were sent")

    def none_again(self, before):
        again = self.crew.again[before:]
        if again:
            raise Missed(f"processed again: {named(again)}")


def named(records):
    """Some records, and how many there are."""
    first = ", ".join(f"{offset} of partition {partition}" for partition, offset in records[:3])
    return f"{len(records)} records ({first}, ...)"
