//! One consumer: reads its share of the partitions through the client library's consumer, and times each
//! record from when it was due. Knows nothing of other consumers.

use std::sync::Arc;
use std::time::Duration;

use client::Error;
use client::consumer::{Consumer, ConsumerRecord, ConsumerRecords, TopicPartition};

use super::Plan;
use super::station::{Control, Station};
use crate::envelope::Envelope;
use crate::measure::record;
use crate::workload::GroupProtocol;

/// How often phases are looked at.
const PHASE_WAIT: Duration = Duration::from_millis(2);
/// How long a poll waits for records, and so how long a consumer may take to notice the end.
const POLL_WAIT: Duration = Duration::from_millis(50);
/// How long a consumer is left alone after an error.
const FAILED_WAIT: Duration = Duration::from_millis(100);
/// How long leaving the group may take.
pub const LEAVE_WAIT: Duration = Duration::from_secs(5);

/// A consumer.
pub struct Consuming {
    plan: Arc<Plan>,
    control: Arc<Control>,
    station: Arc<Station>,
    consumer: Consumer,
    /// What it reads when the generator deals the partitions out.
    share: Vec<TopicPartition>,
}

impl Consuming {
    /// A consumer of this group, by their numbers. It has its partitions and knows where to begin, unless
    /// there is to be a backlog first. `None` when there are not enough partitions for it to have one.
    ///
    /// # Errors
    /// When it gets no partitions, or no position.
    pub async fn new(
        plan: Arc<Plan>,
        control: Arc<Control>,
        station: Arc<Station>,
        group: u32,
        consumer: u32,
    ) -> Result<Option<Self>, Error> {
        let share = share(&plan, consumer);
        if share.is_empty() {
            return Ok(None);
        }
        let mut config = plan.clients.consumer.clone();
        if plan.workload.group_protocol == GroupProtocol::Classic {
            let prefix = &plan.workload.topic_prefix;
            config.group_id = Some(format!("{prefix}-{:016x}-group-{group}", plan.run));
        }
        let mut consuming = Self {
            consumer: Consumer::new(config)?,
            plan,
            control,
            station,
            share,
        };
        if consuming.plan.workload.backlog_bytes == 0 {
            consuming.begin().await?;
        }
        Ok(Some(consuming))
    }

    /// Asks for its partitions and waits until it has them.
    async fn begin(&mut self) -> Result<(), Error> {
        match self.plan.workload.group_protocol {
            GroupProtocol::None => {
                self.consumer.assign(self.share.clone())?;
                for partition in &self.share {
                    self.consumer.position(partition).await?;
                }
            }
            GroupProtocol::Classic => {
                let topics = self.plan.topics.iter().map(String::as_str);
                self.consumer.subscribe(topics)?;
                while self.consumer.metrics().rebalances == 0 && !self.control.is_stopped() {
                    self.poll().await?;
                }
            }
        }
        Ok(())
    }

    /// Consumes until everything ends.
    pub async fn run(mut self) {
        if self.plan.workload.backlog_bytes > 0 {
            // Behind a backlog, consumers begin when the clock does.
            while self.control.clock().is_none() && !self.control.is_stopped() {
                tokio::time::sleep(PHASE_WAIT).await;
            }
            if let Err(error) = self.begin().await {
                return self.control.cannot_start("a consumer".to_owned(), error);
            }
        }
        while !self.control.is_stopped() {
            if let Err(error) = self.poll().await {
                self.station.error(format!("consumer: {error}"), 1);
                tokio::time::sleep(FAILED_WAIT).await;
            }
        }
        // Nothing is measured any more; a member that cannot leave is missed by its group in time.
        let _ = self.consumer.close(LEAVE_WAIT).await;
    }

    async fn poll(&mut self) -> Result<(), Error> {
        let records = self.consumer.poll(POLL_WAIT).await?;
        if !records.is_empty() {
            self.take(&records);
        }
        Ok(())
    }

    fn take(&self, records: &ConsumerRecords) {
        let now = self.control.clock().map_or(0, |clock| clock.now_ns());
        let mut damaged = 0;
        let mut sample = self.station.lock();
        for (_, read) in records.iter() {
            sample.counts.consumed += 1;
            sample.counts.consumed_bytes += size(read);
            match read.value.as_deref().map(Envelope::open) {
                Some(Ok(envelope)) => {
                    if envelope.run == self.plan.run && self.control.measures(envelope.due_ns) {
                        record(&mut sample.end_to_end, now.saturating_sub(envelope.due_ns));
                    }
                }
                _ => damaged += 1,
            }
        }
        drop(sample);
        if damaged > 0 {
            let message = "consumer: a record is damaged".to_owned();
            self.station.error(message, damaged);
        }
    }
}

/// The partitions of a group's consumer when the generator deals them out, in turn.
fn share(plan: &Plan, consumer: u32) -> Vec<TopicPartition> {
    let mut share = Vec::new();
    let mut number = 0;
    for topic in &plan.topics {
        let name: Arc<str> = Arc::from(topic.as_str());
        for partition in 0..plan.workload.partitions {
            if number % plan.workload.consumers == consumer {
                share.push(TopicPartition::new(name.clone(), partition));
            }
            number += 1;
        }
    }
    share
}

fn size(read: &ConsumerRecord) -> u64 {
    let length =
        |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
    length(&read.key) + length(&read.value)
}
