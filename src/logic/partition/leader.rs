//! A partition's leader: which batches are accepted, at which offsets, when their producers are
//! answered and when waiting fetches wake. Knows neither bytes nor files nor sockets: the shell
//! appends what [`Effect::Append`] says and reports how far the log is written and durable.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::producers::{BatchSummary, Producers, Refusal, Verdict};
use crate::ids::{Instant, LeaderEpoch, Offset, Timestamp};

/// Fetches that may wait on one partition; a further one is answered at once.
pub const WATCHERS_MAX: usize = 10_000;
/// Whatever the rules say, the shell flushes what is written within this.
pub const FLUSH_WITHIN_MS: i64 = 100;

/// The shell's name for a waiting request. The machine only hands it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// A producer's `acks`, which decides when it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// 0: answered when appended. The client is sent nothing, but loses its connection on a refusal.
    None,
    /// 1: answered when the leader's write completed.
    Leader,
    /// -1: answered when every in-sync replica holds the batch as durably as the topic asks.
    All,
}

/// What a topic's `durability` asks of the log before a record counts as committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Written and flushed.
    Flush,
    /// Written; a flush follows within a bound.
    Replicated,
}

/// The topic's rules that a leader applies.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// `max.message.bytes`: the largest batch, as sent and in the topic's codec, in bytes.
    pub message_bytes_max: u32,
    /// `cleanup.policy` holds `compact`: a record without a key is refused.
    pub compacted: bool,
    /// `message.timestamp.type` is `LogAppendTime`.
    pub append_time: bool,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_ms_max: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_ms_max: i64,
    /// `min.insync.replicas`.
    pub in_sync_min: u32,
    /// `durability`.
    pub durability: Durability,
    /// `flush.messages`: an append that leaves so many records unflushed is flushed.
    pub flush_records_max: i64,
    /// `flush.ms`. What is written is flushed within [`FLUSH_WITHIN_MS`] in any case.
    pub flush_ms_max: i64,
}

/// One checked batch of a produce request.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// Its length in bytes: as sent or in the topic's codec, whichever is larger.
    pub bytes: u32,
    /// The producer's view of it.
    pub summary: BatchSummary,
    /// The smallest timestamp of the records that have one, or -1.
    pub timestamp_min: Timestamp,
    /// The largest record timestamp, or -1.
    pub timestamp_max: Timestamp,
    /// The index of the first record without a key.
    pub keyless: Option<u32>,
}

/// What happens to a leader.
#[derive(Debug)]
pub enum Event {
    /// A producer sent a batch.
    Produce {
        /// Who to answer.
        token: Token,
        /// When to answer.
        acks: Acks,
        /// The wall clock, for timestamps.
        wall: Timestamp,
        /// The batch, checked. Kafka allows exactly one per partition and request.
        batch: Batch,
    },
    /// The log now reaches this far on disk; offsets are exclusive ends.
    Progress {
        /// Direct writes have completed below this offset.
        written: Offset,
        /// Flushes have completed below this offset.
        durable: Offset,
    },
    /// The log failed for good: nothing is acknowledged again (invariant 29).
    Failed,
    /// A fetch waits until the high watermark passes `beyond`. The shell owns its deadline, since one
    /// fetch waits on many partitions.
    Watch {
        /// Who to wake.
        token: Token,
        /// The watermark that the fetch has already seen.
        beyond: Offset,
    },
    /// A fetch no longer waits.
    Unwatch {
        /// Who gave up.
        token: Token,
    },
    /// The log's start moved up, by DeleteRecords or retention.
    LogStart(Offset),
    /// Producers that have appended nothing for so many milliseconds are forgotten
    /// (`producer.id.expiration.ms`).
    ExpireProducers(u64),
    /// The topic's rules changed.
    Rules(Rules),
}

/// What the shell must do, in order.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Append the event's batch at this offset and epoch.
    Append {
        /// The offset of its first record.
        base_offset: Offset,
        /// The epoch to stamp.
        epoch: LeaderEpoch,
        /// The timestamp to stamp on all records, when the topic says LogAppendTime.
        append_time: Option<Timestamp>,
        /// The commit that carries it must be flushed.
        flush: bool,
    },
    /// Answer a producer.
    Reply {
        /// Who.
        token: Token,
        /// What.
        outcome: Outcome,
    },
    /// A waiting fetch should look again.
    Wake {
        /// Who.
        token: Token,
    },
}

/// A produce request's answer for one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Success with the first batch's offset, or why nothing was appended.
    pub result: Result<Offset, Refused>,
    /// The broker's timestamp under LogAppendTime.
    pub append_time: Option<Timestamp>,
    /// The log start offset when answered.
    pub log_start: Offset,
}

/// Why a produce was refused. The shell maps each to Kafka's error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// MESSAGE_TOO_LARGE: the batch is above `max.message.bytes`.
    TooLarge,
    /// INVALID_RECORD: this record has no key and the topic is compacted.
    Keyless(u32),
    /// INVALID_TIMESTAMP: some record's is outside the topic's bounds around the clock.
    Timestamps {
        /// The oldest that is allowed.
        oldest: Timestamp,
        /// The newest that is allowed.
        newest: Timestamp,
    },
    /// NOT_ENOUGH_REPLICAS: fewer in-sync replicas than `min.insync.replicas`.
    NotEnoughReplicas,
    /// The producer's epoch or sequence is not the expected one.
    Producer(Refusal),
    /// KAFKA_STORAGE_ERROR: the log has failed.
    Storage,
}

#[derive(Debug)]
struct WaitingProduce {
    token: Token,
    acks: Acks,
    /// Answered once the log is committed (or written) up to here.
    end: Offset,
    base_offset: Offset,
    append_time: Option<Timestamp>,
}

/// The leader of one partition.
#[derive(Debug)]
pub struct Leader {
    epoch: LeaderEpoch,
    rules: Rules,
    /// log_start <= high_watermark <= log_end (invariant 15).
    log_start: Offset,
    high_watermark: Offset,
    log_end: Offset,
    /// durable <= written <= log_end.
    written: Offset,
    durable: Offset,
    failed: bool,
    producers: Producers,
    /// In offset order.
    waiting: VecDeque<WaitingProduce>,
    watchers: BTreeMap<Token, Offset>,
}

impl Leader {
    /// A leader over a recovered log: everything in it is durable, so committed.
    pub fn new(
        epoch: LeaderEpoch,
        rules: Rules,
        log_start: Offset,
        log_end: Offset,
        producers: Producers,
    ) -> Self {
        assert!(log_start <= log_end, "a log ends before it starts");
        Self {
            epoch,
            rules,
            log_start,
            high_watermark: log_end,
            log_end,
            written: log_end,
            durable: log_end,
            failed: false,
            producers,
            waiting: VecDeque::new(),
            watchers: BTreeMap::new(),
        }
    }

    /// The epoch stamped on new batches.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// The first offset still in the log.
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// One past the last committed offset: consumers read below it (invariant 13).
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// One past the last appended offset.
    pub fn log_end(&self) -> Offset {
        self.log_end
    }

    /// Where read_committed readers stop. The high watermark until transactions exist.
    pub fn last_stable_offset(&self) -> Offset {
        self.high_watermark
    }

    /// The producers that have written here.
    pub fn producers(&self) -> &Producers {
        &self.producers
    }

    /// Takes one event; what must be done is pushed to `effects` in order.
    pub fn step(&mut self, now: Instant, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Produce {
                token,
                acks,
                wall,
                batch,
            } => {
                self.produce(now, token, acks, wall, &batch, effects);
            }
            Event::Progress { written, durable } => self.progress(written, durable, effects),
            Event::Failed => self.fail(effects),
            Event::Watch { token, beyond } => {
                if self.high_watermark > beyond {
                    effects.push(Effect::Wake { token });
                } else if self.watchers.len() < WATCHERS_MAX {
                    self.watchers.insert(token, beyond);
                }
                // One too many waits for its deadline: to wake it would only have it ask again.
            }
            Event::Unwatch { token } => {
                self.watchers.remove(&token);
            }
            Event::LogStart(offset) => {
                assert!(
                    offset <= self.high_watermark,
                    "log start beyond the high watermark"
                );
                self.log_start = self.log_start.max(offset);
            }
            Event::ExpireProducers(idle_ms) => {
                self.producers.expire(now, idle_ms);
            }
            Event::Rules(rules) => self.rules = rules,
        }
        assert!(self.log_start <= self.high_watermark && self.high_watermark <= self.log_end);
    }

    fn produce(
        &mut self,
        now: Instant,
        token: Token,
        acks: Acks,
        wall: Timestamp,
        batch: &Batch,
        effects: &mut Vec<Effect>,
    ) {
        if let Err(refused) = self.admit(acks, wall, batch) {
            return self.answer(token, Err(refused), None, effects);
        }
        let append_time = self.rules.append_time.then_some(wall);
        match self.producers.check(&batch.summary) {
            Verdict::Append => {
                let base_offset = self.append(now, batch, append_time, effects);
                self.wait(token, acks, base_offset, self.log_end, append_time, effects);
            }
            Verdict::Duplicate {
                base_offset,
                last_offset,
                timestamp,
            } => {
                // The original may still be on its way to disk: the retry waits for it too.
                let end = Offset(last_offset.0 + 1);
                let append_time = append_time.map(|_| Timestamp(timestamp));
                self.wait(token, acks, base_offset, end, append_time, effects);
            }
            Verdict::Refuse(refusal) => {
                self.answer(token, Err(Refused::Producer(refusal)), None, effects);
            }
        }
    }

    /// The checks that do not depend on the producer.
    fn admit(&self, acks: Acks, wall: Timestamp, batch: &Batch) -> Result<(), Refused> {
        if self.failed {
            return Err(Refused::Storage);
        }
        // The in-sync set of a partition with one replica is that replica.
        if acks == Acks::All && self.rules.in_sync_min > 1 {
            return Err(Refused::NotEnoughReplicas);
        }
        if batch.bytes > self.rules.message_bytes_max {
            return Err(Refused::TooLarge);
        }
        if let (true, Some(index)) = (self.rules.compacted, batch.keyless) {
            return Err(Refused::Keyless(index));
        }
        if self.rules.append_time {
            return Ok(());
        }
        let oldest = Timestamp(wall.0.saturating_sub(self.rules.timestamp_before_ms_max));
        let newest = Timestamp(wall.0.saturating_add(self.rules.timestamp_after_ms_max));
        let missing = Timestamp(-1);
        let young = batch.timestamp_min == missing || batch.timestamp_min >= oldest;
        match young && batch.timestamp_max <= newest {
            true => Ok(()),
            false => Err(Refused::Timestamps { oldest, newest }),
        }
    }

    fn append(
        &mut self,
        now: Instant,
        batch: &Batch,
        append_time: Option<Timestamp>,
        effects: &mut Vec<Effect>,
    ) -> Offset {
        let base_offset = self.log_end;
        let mut summary = batch.summary;
        if let Some(Timestamp(stamped)) = append_time {
            // As the log will tell it: the state equals a fold over the log (invariant 19).
            summary.timestamp = stamped;
        }
        self.producers.replay(now, &summary, base_offset);
        self.log_end = Offset(base_offset.0 + i64::from(batch.summary.record_count));
        effects.push(Effect::Append {
            base_offset,
            epoch: self.epoch,
            append_time,
            flush: self.flush_due(),
        });
        base_offset
    }

    /// Whether the commit that carries the newest batch must be flushed.
    fn flush_due(&self) -> bool {
        self.rules.durability == Durability::Flush
            || self.log_end.0 - self.durable.0 >= self.rules.flush_records_max
            || self.rules.flush_ms_max < FLUSH_WITHIN_MS
    }

    fn wait(
        &mut self,
        token: Token,
        acks: Acks,
        base_offset: Offset,
        end: Offset,
        append_time: Option<Timestamp>,
        effects: &mut Vec<Effect>,
    ) {
        match acks {
            Acks::None => self.answer(token, Ok(base_offset), append_time, effects),
            Acks::All | Acks::Leader if self.reached(acks) >= end => {
                self.answer(token, Ok(base_offset), append_time, effects);
            }
            Acks::All | Acks::Leader => {
                let wait = WaitingProduce {
                    token,
                    acks,
                    end,
                    base_offset,
                    append_time,
                };
                self.waiting.push_back(wait);
            }
        }
    }

    fn reached(&self, acks: Acks) -> Offset {
        match acks {
            Acks::All => self.high_watermark,
            Acks::Leader | Acks::None => self.written,
        }
    }

    fn progress(&mut self, written: Offset, durable: Offset, effects: &mut Vec<Effect>) {
        if self.failed {
            return;
        }
        assert!(
            durable <= written && written <= self.log_end,
            "progress past the log's end"
        );
        self.written = self.written.max(written);
        self.durable = self.durable.max(durable);
        let committed = match self.rules.durability {
            Durability::Flush => self.durable,
            Durability::Replicated => self.written,
        };
        let before = self.high_watermark;
        self.high_watermark = before.max(committed);
        let mut still = VecDeque::with_capacity(self.waiting.len());
        while let Some(wait) = self.waiting.pop_front() {
            if self.reached(wait.acks) >= wait.end {
                let WaitingProduce {
                    token,
                    base_offset,
                    append_time,
                    ..
                } = wait;
                self.answer(token, Ok(base_offset), append_time, effects);
            } else {
                still.push_back(wait);
            }
        }
        self.waiting = still;
        if self.high_watermark > before {
            self.wake_watchers(effects);
        }
    }

    fn wake_watchers(&mut self, effects: &mut Vec<Effect>) {
        let high_watermark = self.high_watermark;
        self.watchers.retain(|token, beyond| {
            let moved = high_watermark > *beyond;
            if moved {
                effects.push(Effect::Wake { token: *token });
            }
            !moved
        });
    }

    fn fail(&mut self, effects: &mut Vec<Effect>) {
        self.failed = true;
        for WaitingProduce { token, .. } in core::mem::take(&mut self.waiting) {
            self.answer(token, Err(Refused::Storage), None, effects);
        }
        for token in core::mem::take(&mut self.watchers).into_keys() {
            effects.push(Effect::Wake { token });
        }
    }

    fn answer(
        &self,
        token: Token,
        result: Result<Offset, Refused>,
        append_time: Option<Timestamp>,
        effects: &mut Vec<Effect>,
    ) {
        let outcome = Outcome {
            result,
            append_time,
            log_start: self.log_start,
        };
        effects.push(Effect::Reply { token, outcome });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const NOW: Instant = Instant(0);
    const WALL: Timestamp = Timestamp(1_000_000);

    fn rules() -> Rules {
        Rules {
            message_bytes_max: 1000,
            compacted: false,
            append_time: false,
            timestamp_before_ms_max: i64::MAX,
            timestamp_after_ms_max: 3_600_000,
            in_sync_min: 1,
            durability: Durability::Flush,
            flush_records_max: i64::MAX,
            flush_ms_max: i64::MAX,
        }
    }

    fn leader(rules: Rules) -> Leader {
        Leader::new(
            LeaderEpoch(3),
            rules,
            Offset(0),
            Offset(10),
            Producers::new(),
        )
    }

    fn batch(sequence: i32) -> Batch {
        Batch {
            bytes: 100,
            summary: BatchSummary {
                producer_id: 1,
                epoch: 0,
                base_sequence: sequence,
                record_count: 5,
                timestamp: WALL.0,
            },
            timestamp_min: WALL,
            timestamp_max: WALL,
            keyless: None,
        }
    }

    fn step(leader: &mut Leader, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        leader.step(NOW, event, &mut effects);
        effects
    }

    fn produce(id: u64, acks: Acks, batch: Batch) -> Event {
        Event::Produce {
            token: Token(id),
            acks,
            wall: WALL,
            batch,
        }
    }

    fn progress(written: i64, durable: i64) -> Event {
        Event::Progress {
            written: Offset(written),
            durable: Offset(durable),
        }
    }

    fn answer(id: u64, result: Result<Offset, Refused>) -> Effect {
        let outcome = Outcome {
            result,
            append_time: None,
            log_start: Offset(0),
        };
        Effect::Reply {
            token: Token(id),
            outcome,
        }
    }

    fn appended(base_offset: i64) -> Effect {
        Effect::Append {
            base_offset: Offset(base_offset),
            epoch: LeaderEpoch(3),
            append_time: None,
            flush: true,
        }
    }

    #[test]
    fn acks_all_is_answered_by_the_flush_and_acks_1_by_the_write() {
        let mut leader = leader(rules());
        assert_eq!(
            step(&mut leader, produce(1, Acks::All, batch(0))),
            [appended(10)]
        );
        assert_eq!(
            step(&mut leader, produce(2, Acks::Leader, batch(5))),
            [appended(15)]
        );
        assert_eq!(
            step(&mut leader, produce(3, Acks::None, batch(10))),
            [appended(20), answer(3, Ok(Offset(20)))]
        );
        assert_eq!(
            step(&mut leader, progress(20, 10)),
            [answer(2, Ok(Offset(15)))]
        );
        assert_eq!(leader.high_watermark(), Offset(10));
        assert_eq!(
            step(&mut leader, progress(25, 20)),
            [answer(1, Ok(Offset(10)))]
        );
        assert_eq!(leader.high_watermark(), Offset(20));
    }

    #[test]
    fn flush_messages_and_flush_ms_ask_for_a_flush_where_durability_does_not() {
        let flushes = |rules: Rules, durable: i64| {
            let mut leader = leader(rules);
            step(&mut leader, produce(1, Acks::Leader, batch(0)));
            step(&mut leader, progress(15, durable));
            let effects = step(&mut leader, produce(2, Acks::Leader, batch(5)));
            matches!(effects[..], [Effect::Append { flush: true, .. }])
        };
        let lazy = Rules {
            durability: Durability::Replicated,
            ..rules()
        };
        assert!(!flushes(lazy, 10));
        let often = |flush_records_max| Rules {
            flush_records_max,
            ..lazy
        };
        assert!(flushes(often(10), 10), "ten records would be unflushed");
        assert!(!flushes(often(11), 10));
        assert!(!flushes(often(10), 15), "five of them are flushed");
        let soon = |flush_ms_max| Rules {
            flush_ms_max,
            ..lazy
        };
        assert!(flushes(soon(99), 15));
        assert!(!flushes(soon(100), 15), "the shell's own bound is enough");
    }

    #[test]
    fn invariant_18_a_retry_in_flight_waits_for_the_original() {
        let mut leader = leader(rules());
        step(&mut leader, produce(1, Acks::All, batch(0)));
        assert_eq!(step(&mut leader, produce(2, Acks::All, batch(0))), []);
        let both = [answer(1, Ok(Offset(10))), answer(2, Ok(Offset(10)))];
        assert_eq!(step(&mut leader, progress(15, 15)), both);
        let late = step(&mut leader, produce(3, Acks::All, batch(0)));
        assert_eq!(late, [answer(3, Ok(Offset(10)))]);
        assert_eq!(leader.log_end(), Offset(15));
    }

    #[test]
    fn what_is_refused_leaves_the_log_as_it_was() {
        let cases: [(Rules, Batch, Refused); 5] = [
            (
                rules(),
                Batch {
                    bytes: 1001,
                    ..batch(0)
                },
                Refused::TooLarge,
            ),
            (
                Rules {
                    compacted: true,
                    ..rules()
                },
                Batch {
                    keyless: Some(2),
                    ..batch(0)
                },
                Refused::Keyless(2),
            ),
            (
                rules(),
                Batch {
                    timestamp_max: Timestamp(WALL.0 + 3_600_001),
                    ..batch(0)
                },
                Refused::Timestamps {
                    oldest: Timestamp(WALL.0 - rules().timestamp_before_ms_max),
                    newest: Timestamp(WALL.0 + 3_600_000),
                },
            ),
            (
                Rules {
                    timestamp_before_ms_max: 10,
                    ..rules()
                },
                Batch {
                    timestamp_min: Timestamp(WALL.0 - 11),
                    ..batch(0)
                },
                Refused::Timestamps {
                    oldest: Timestamp(WALL.0 - 10),
                    newest: Timestamp(WALL.0 + 3_600_000),
                },
            ),
            (
                Rules {
                    in_sync_min: 2,
                    ..rules()
                },
                batch(0),
                Refused::NotEnoughReplicas,
            ),
        ];
        for (rules, batch, refused) in cases {
            let mut leader = leader(rules);
            let effects = step(&mut leader, produce(1, Acks::All, batch));
            assert_eq!(effects, [answer(1, Err(refused))]);
            assert_eq!(leader.log_end(), Offset(10));
        }
    }

    #[test]
    fn a_missing_timestamp_is_allowed() {
        let mut leader = leader(Rules {
            timestamp_before_ms_max: 10,
            ..rules()
        });
        let missing = Timestamp(-1);
        let batch = Batch {
            timestamp_min: missing,
            timestamp_max: missing,
            ..batch(0)
        };
        assert_eq!(
            step(&mut leader, produce(1, Acks::All, batch)),
            [appended(10)]
        );
    }

    #[test]
    fn append_time_is_stamped_and_told() {
        let mut leader = leader(Rules {
            append_time: true,
            ..rules()
        });
        let far = Timestamp(i64::MAX);
        let effects = step(
            &mut leader,
            produce(
                1,
                Acks::All,
                Batch {
                    timestamp_max: far,
                    ..batch(0)
                },
            ),
        );
        let stamped = |effect: &Effect| {
            matches!(
                effect,
                Effect::Append {
                    append_time: Some(WALL),
                    ..
                }
            )
        };
        assert!(effects.iter().all(stamped), "{effects:?}");
        let told = step(&mut leader, progress(15, 15));
        let outcome = Outcome {
            result: Ok(Offset(10)),
            append_time: Some(WALL),
            log_start: Offset(0),
        };
        let reply = |id| Effect::Reply {
            token: Token(id),
            outcome,
        };
        assert_eq!(told, [reply(1)]);
        // A retry is told the original's time, by state that a fold over the log gives too.
        let mut effects = Vec::new();
        let later = Event::Produce {
            token: Token(2),
            acks: Acks::All,
            wall: Timestamp(WALL.0 + 5),
            batch: batch(0),
        };
        leader.step(NOW, later, &mut effects);
        assert_eq!(effects, [reply(2)]);
        let known = leader.producers().iter().next().expect("one producer");
        assert_eq!(known.last_timestamp, WALL.0);
    }

    #[test]
    fn a_watch_wakes_when_the_watermark_passes_and_only_then() {
        let mut leader = leader(rules());
        let watch = |id, beyond| Event::Watch {
            token: Token(id),
            beyond: Offset(beyond),
        };
        assert_eq!(
            step(&mut leader, watch(1, 9)),
            [Effect::Wake { token: Token(1) }]
        );
        assert_eq!(step(&mut leader, watch(2, 10)), []);
        assert_eq!(step(&mut leader, watch(3, 10)), []);
        assert_eq!(step(&mut leader, Event::Unwatch { token: Token(3) }), []);
        step(&mut leader, produce(4, Acks::None, batch(0)));
        assert_eq!(step(&mut leader, progress(15, 10)), []);
        assert_eq!(
            step(&mut leader, progress(15, 15)),
            [Effect::Wake { token: Token(2) }]
        );
    }

    #[test]
    fn a_watch_that_nothing_will_end_waits_for_its_deadline() {
        let mut failed = leader(rules());
        step(&mut failed, Event::Failed);
        let watch = |id| Event::Watch {
            token: Token(id),
            beyond: Offset(10),
        };
        assert_eq!(step(&mut failed, watch(1)), []);
        let mut crowded = leader(rules());
        for id in 0..=WATCHERS_MAX as u64 {
            assert_eq!(step(&mut crowded, watch(id)), []);
        }
    }

    #[test]
    fn a_producer_is_forgotten_once_it_was_idle_for_long_enough() {
        let mut leader = leader(rules());
        step(&mut leader, produce(1, Acks::None, batch(0)));
        let mut expire = |now: Instant| {
            leader.step(now, Event::ExpireProducers(1_000), &mut Vec::new());
            leader.producers().len()
        };
        assert_eq!(expire(NOW.plus_ms(999)), 1);
        assert_eq!(expire(NOW.plus_ms(1_000)), 0);
    }

    #[test]
    fn invariant_29_after_a_failure_nothing_is_acknowledged() {
        let mut leader = leader(rules());
        step(&mut leader, produce(1, Acks::All, batch(0)));
        let failed = step(&mut leader, Event::Failed);
        assert_eq!(failed, [answer(1, Err(Refused::Storage))]);
        assert_eq!(step(&mut leader, progress(15, 15)), []);
        let refused = step(&mut leader, produce(2, Acks::Leader, batch(5)));
        assert_eq!(refused, vec![answer(2, Err(Refused::Storage))]);
        assert_eq!(leader.high_watermark(), Offset(10));
    }

    #[test]
    fn under_replicated_durability_the_write_commits() {
        let mut leader = leader(Rules {
            durability: Durability::Replicated,
            ..rules()
        });
        step(&mut leader, produce(1, Acks::All, batch(0)));
        assert_eq!(
            step(&mut leader, progress(15, 10)),
            [answer(1, Ok(Offset(10)))]
        );
        assert_eq!(leader.high_watermark(), Offset(15));
    }
}
