//! One consumer: reads its share of the partitions and times each record from when it was due. Knows
//! nothing of other consumers.

use std::sync::Arc;
use std::time::Duration;

use client::Cluster;
use wire::records::Record;

use super::Plan;
use super::reader::{self, Fetched, Item, Position, Reader};
use super::station::{Control, Station};
use crate::envelope::Envelope;
use crate::measure::record;

const PHASE_WAIT: Duration = Duration::from_millis(2);

/// The partitions of a group's consumer: all of them are dealt out in turn.
pub fn share(plan: &Plan, consumer: u32) -> Vec<Position> {
    let mut positions = Vec::new();
    let mut number = 0;
    for topic in &plan.topics {
        let name: Arc<str> = Arc::from(topic.as_str());
        for partition in 0..plan.workload.partitions {
            if number % plan.workload.consumers == consumer {
                positions.push(Position {
                    topic: name.clone(),
                    partition,
                    offset: 0,
                });
            }
            number += 1;
        }
    }
    positions
}

/// Consumes until everything ends.
pub async fn run(
    plan: Arc<Plan>,
    control: Arc<Control>,
    station: Arc<Station>,
    cluster: Cluster,
    consumer: u32,
) {
    let positions = share(&plan, consumer);
    if positions.is_empty() {
        return;
    }
    // Behind a backlog, consumers begin when the clock does.
    while plan.workload.backlog_bytes > 0 && control.clock().is_none() {
        if control.is_stopped() {
            return;
        }
        tokio::time::sleep(PHASE_WAIT).await;
    }
    let mut reader = Reader::new(cluster, plan.clients.consumer.clone(), positions);
    while !control.is_stopped() {
        match reader.poll().await {
            Err(error) => station.error(format!("consumer: {error}"), 1),
            Ok(fetched) => {
                for fetched in fetched {
                    let from = reader.positions()[fetched.position].offset;
                    let next = take(&plan, &control, &station, &fetched, from);
                    reader.advance(fetched.position, next);
                }
            }
        }
    }
}

fn take(plan: &Plan, control: &Control, station: &Station, fetched: &Fetched, from: i64) -> i64 {
    let now = control.clock().map_or(0, |clock| clock.now_ns());
    let mut damaged = 0;
    let mut sample = station.lock();
    let next = reader::records(&fetched.records, from, |item| match item {
        Item::Damaged(from, to) => damaged += (to - from).unsigned_abs(),
        Item::Record(_, read) => {
            let bytes = size(&read);
            sample.counts.consumed += 1;
            sample.counts.consumed_bytes += bytes;
            let envelope = read.value.as_deref().map(Envelope::open);
            let Some(Ok(envelope)) = envelope else {
                damaged += 1;
                return;
            };
            if envelope.run == plan.run && control.measures(envelope.due_ns) {
                record(&mut sample.end_to_end, now.saturating_sub(envelope.due_ns));
            }
        }
    });
    drop(sample);
    if damaged > 0 {
        station.error("consumer: a record is damaged".to_owned(), damaged);
    }
    next
}

fn size(read: &Record) -> u64 {
    let length =
        |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
    length(&read.key) + length(&read.value)
}
