//! Reads as a member of a group, and commits what was printed: a record is committed no sooner than
//! it is handed to standard output. Knows nothing of how members agree.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use client::ConsumerConfig;
use client::consumer::{Consumer, ConsumerRecords, OffsetAndMetadata, TopicPartition};

use super::Consume;
use super::print::{Printer, Received};
use crate::command::exit::{Ending, Failure, written};

/// How long one poll waits: then it is seen whether all was read.
const POLL: Duration = Duration::from_millis(500);
/// Leaving the group spares the others the wait for the session's end.
const CLOSE: Duration = Duration::from_secs(5);

/// A member.
pub struct Member<'a> {
    consume: &'a Consume,
    consumer: Consumer,
    /// Records that may still be printed.
    left: u64,
    printer: Printer,
}

impl<'a> Member<'a> {
    /// Joins with the first poll.
    ///
    /// # Errors
    /// When a setting does not fit.
    pub fn join(consume: &'a Consume, config: ConsumerConfig) -> Result<Self, Failure> {
        let mut consumer = Consumer::new(config)?;
        consumer.subscribe([consume.topic.as_str()])?;
        Ok(Self {
            consume,
            consumer,
            left: consume.count.unwrap_or(u64::MAX),
            printer: Printer::new(consume),
        })
    }

    /// Prints until enough was printed, the end is reached (`--exit`), or it is interrupted.
    ///
    /// # Errors
    /// The client's, and those of standard output.
    pub async fn run(mut self) -> Result<Ending, Failure> {
        let ended = self.read().await;
        let closed = self.consumer.close(CLOSE).await;
        ended?;
        written(self.printer.finish())?;
        closed?;
        Ok(Ending::Done)
    }

    async fn read(&mut self) -> Result<(), Failure> {
        while self.left > 0 {
            let records = tokio::select! {
                records = self.consumer.poll(POLL) => records?,
                _ = tokio::signal::ctrl_c() => return Ok(()),
            };
            if records.is_empty() {
                if self.consume.exit && self.is_at_end().await? {
                    return Ok(());
                }
                continue;
            }
            let (printed, result) = self.print(&records);
            if !printed.is_empty() {
                self.consumer.commit_sync_offsets(printed).await?;
            }
            if result.is_err() {
                return written(result);
            }
        }
        Ok(())
    }

    /// Prints records; says up to where each partition was.
    fn print(
        &mut self,
        records: &ConsumerRecords,
    ) -> (BTreeMap<TopicPartition, OffsetAndMetadata>, io::Result<()>) {
        let mut printed = BTreeMap::new();
        for (at, record) in records.iter() {
            if self.left == 0 {
                break;
            }
            let received = Received {
                topic: &at.topic,
                partition: at.partition,
                record,
            };
            if let Err(error) = self.printer.print(&received, &self.consume.null) {
                return (BTreeMap::new(), Err(error));
            }
            self.left -= 1;
            let next = OffsetAndMetadata {
                leader_epoch: record.leader_epoch,
                ..OffsetAndMetadata::new(record.offset + 1)
            };
            printed.insert(at.clone(), next);
        }
        match self.printer.flush() {
            Ok(()) => (printed, Ok(())),
            // What a reader that has gone away did not take is the next one's to read.
            Err(error) => (BTreeMap::new(), Err(error)),
        }
    }

    /// Whether all of this member's partitions are read to their ends.
    async fn is_at_end(&self) -> Result<bool, Failure> {
        let assigned = self.consumer.assignment();
        if assigned.is_empty() {
            return Ok(false);
        }
        let ends = self.consumer.end_offsets(assigned).await?;
        for (at, end) in ends {
            if self.consumer.position(&at).await? < end {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
