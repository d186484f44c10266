//! Reads partitions of its own choice from where to where they are wanted. Knows no group.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use client::ConsumerConfig;
use client::consumer::{Consumer, ConsumerRecord, TopicPartition};

use super::Consume;
use super::bounds::Range;
use super::print::{Printer, Received};
use crate::command::exit::{Ending, Failure, written};
use crate::command::output;

/// How long one poll waits: then it is seen whether all was read.
const POLL: Duration = Duration::from_millis(200);
const CLOSE: Duration = Duration::from_secs(1);

/// Reads until there is nothing more to read.
pub struct Reader<'a> {
    consume: &'a Consume,
    consumer: Consumer,
    /// What is still to be read.
    open: BTreeMap<TopicPartition, Range>,
    /// Records that may still be printed.
    left: u64,
    printer: Printer,
}

impl<'a> Reader<'a> {
    /// A reader of these partitions.
    ///
    /// # Errors
    /// When a setting does not fit.
    pub fn new(
        consume: &'a Consume,
        config: ConsumerConfig,
        ranges: BTreeMap<i32, Range>,
    ) -> Result<Self, Failure> {
        let place = |(partition, range)| {
            let at = TopicPartition::new(consume.topic.as_str(), partition);
            (at, range)
        };
        let open: BTreeMap<TopicPartition, Range> = ranges
            .into_iter()
            .filter(|(_, range)| !range.is_done(range.from))
            .map(place)
            .collect();
        let mut consumer = Consumer::new(config)?;
        consumer.assign(open.keys().cloned())?;
        for (at, range) in &open {
            consumer.seek(at, range.from)?;
        }
        Ok(Self {
            consume,
            consumer,
            open,
            left: consume.count.unwrap_or(u64::MAX),
            printer: Printer::new(consume),
        })
    }

    /// Prints until there is nothing more to read.
    ///
    /// # Errors
    /// The client's, and those of standard output.
    pub async fn run(mut self) -> Result<Ending, Failure> {
        while self.left > 0 && !self.open.is_empty() {
            let records = tokio::select! {
                records = self.consumer.poll(POLL) => records?,
                _ = tokio::signal::ctrl_c() => break,
            };
            for (at, record) in records.iter() {
                if self.left == 0 {
                    break;
                }
                if let Err(error) = self.print(at, record) {
                    return written(Err(error)).map(|()| Ending::Done);
                }
            }
            if let Err(error) = self.printer.flush() {
                return written(Err(error)).map(|()| Ending::Done);
            }
            self.finish_partitions().await?;
        }
        written(self.printer.finish())?;
        // All that was wanted is printed: what closing fails at is nobody's loss.
        let _ = self.consumer.close(CLOSE).await;
        Ok(Ending::Done)
    }

    fn print(&mut self, at: &TopicPartition, record: &ConsumerRecord) -> io::Result<()> {
        let wanted = self.open.get(at);
        if wanted.is_none_or(|range| range.is_done(record.offset)) {
            return Ok(());
        }
        self.left -= 1;
        let received = Received {
            topic: &at.topic,
            partition: at.partition,
            record,
        };
        self.printer.print(&received, &self.consume.null)
    }

    /// Leaves partitions whose end was reached: by position, since the last offsets may hold no
    /// records (transaction markers, compaction).
    async fn finish_partitions(&mut self) -> Result<(), Failure> {
        let bounded = self.open.iter().filter(|(_, range)| range.to.is_some());
        let bounded: Vec<(TopicPartition, Range)> =
            bounded.map(|(at, range)| (at.clone(), *range)).collect();
        for (at, range) in bounded {
            let position = self.consumer.position(&at).await?;
            if range.is_done(position) {
                self.open.remove(&at);
                self.consumer.pause(&at)?;
                if output::is_watched() {
                    eprintln!(
                        "{at}: all read up to offset {}",
                        range.to.unwrap_or(position)
                    );
                }
            }
        }
        Ok(())
    }
}
