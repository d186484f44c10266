//! The fate of a batch, shared by all who wait for one of its records. Knows nothing of how it comes
//! about.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use super::record::RecordMetadata;
use crate::Error;

/// What became of a batch.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// It is in the partition.
    Written {
        /// Offset of its first record, if the broker said it.
        base_offset: Option<i64>,
        /// The broker's time, where the topic takes that.
        append_time: Option<i64>,
    },
    /// It is not, or nobody knows.
    Failed(Error),
    /// It was too large and went on in parts: index of the first record, and the part's fate.
    Split(Parts),
}

/// Parts of a batch, each with the index of its first record.
type Parts = Vec<(u32, Arc<Completion>)>;

/// A fate that is to come.
#[derive(Debug)]
pub(super) struct Completion {
    topic: Arc<str>,
    partition: i32,
    outcome: OnceLock<Outcome>,
    wakers: Mutex<Vec<Waker>>,
}

impl Completion {
    pub(super) fn new(topic: Arc<str>, partition: i32) -> Arc<Self> {
        Arc::new(Self {
            topic,
            partition,
            outcome: OnceLock::new(),
            wakers: Mutex::default(),
        })
    }

    /// Decides it. The first decision stands.
    pub(super) fn complete(&self, outcome: Outcome) {
        if self.outcome.set(outcome).is_ok() {
            let wakers = std::mem::take(&mut *self.waiting());
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<&Outcome> {
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome);
        }
        let mut waiting = self.waiting();
        // It may have been decided before the lock was taken: then nobody wakes what is added now.
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome);
        }
        if !waiting.last().is_some_and(|last| last.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        Poll::Pending
    }

    /// Waits until it is decided; says what it was split into.
    async fn parts(&self) -> Option<Parts> {
        let parts = std::future::poll_fn(|context| {
            let decided = self.poll(context.waker());
            decided.map(|outcome| match outcome {
                Outcome::Split(parts) => Some(parts.clone()),
                Outcome::Written { .. } | Outcome::Failed(_) => None,
            })
        });
        parts.await
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a record of the batch can be told: `None` while it is not decided.
    pub(super) fn metadata(
        &self,
        index: u32,
        timestamp: i64,
    ) -> Option<Result<RecordMetadata, Error>> {
        match self.outcome.get()? {
            Outcome::Written {
                base_offset,
                append_time,
            } => Some(Ok(RecordMetadata {
                topic: self.topic.clone(),
                partition: self.partition,
                offset: base_offset.map(|base| base + i64::from(index)),
                timestamp: append_time.unwrap_or(timestamp),
            })),
            Outcome::Failed(error) => Some(Err(error.clone())),
            Outcome::Split(parts) => {
                let (first, part) = part_of(parts, index)?;
                part.metadata(index - first, timestamp)
            }
        }
    }
}

fn part_of(parts: &[(u32, Arc<Completion>)], index: u32) -> Option<&(u32, Arc<Completion>)> {
    parts.iter().rev().find(|(first, _)| *first <= index)
}

/// A record's fate: a future, or nothing to those who drop it (fire and forget).
#[derive(Debug)]
pub struct Delivery {
    completion: Arc<Completion>,
    index: u32,
    timestamp: i64,
}

impl Delivery {
    pub(super) fn new(completion: Arc<Completion>, index: u32, timestamp: i64) -> Self {
        Self {
            completion,
            index,
            timestamp,
        }
    }
}

/// The fates of records that follow each other in one batch, told together: those who send very many pay less
/// than for a future each.
#[derive(Debug)]
pub struct Deliveries {
    completion: Arc<Completion>,
    first: u32,
    records: u32,
}

/// Records that follow each other and share their fate.
#[derive(Clone, Debug)]
pub struct Told {
    /// How many they are.
    pub records: usize,
    /// The first one's offset, if the broker said it (the others' follow it), or why they failed.
    pub outcome: Result<Option<i64>, Error>,
}

impl From<Delivery> for Deliveries {
    fn from(first: Delivery) -> Self {
        Self {
            completion: first.completion,
            first: first.index,
            records: 1,
        }
    }
}

impl Deliveries {
    /// Adds a record, if it is the next one of the same batch.
    ///
    /// # Errors
    /// The record, if it is not.
    pub fn add(&mut self, next: Delivery) -> Result<(), Delivery> {
        let is_same = Arc::ptr_eq(&self.completion, &next.completion);
        if !is_same || next.index != self.first + self.records {
            return Err(next);
        }
        self.records += 1;
        Ok(())
    }

    /// How many records they are.
    pub fn records(&self) -> usize {
        self.records as usize
    }

    /// Waits until the batch is decided. No record comes into it after that.
    pub fn decided(&self) -> impl Future<Output = ()> + Send + use<> {
        let completion = self.completion.clone();
        std::future::poll_fn(move |context| completion.poll(context.waker()).map(drop))
    }

    /// Waits for all fates; in the order of the records, and more than one only if the batch was too large and
    /// went on in parts.
    pub async fn told(self) -> Vec<Told> {
        let mut told = Vec::with_capacity(1);
        // What is to be waited for, the next one last.
        let mut open = Vec::new();
        let mut next = Some((self.completion, self.first, self.records));
        while let Some((completion, first, records)) = next.take().or_else(|| open.pop()) {
            let Some(parts) = completion.parts().await else {
                let known = completion.metadata(first, 0).unwrap_or(Err(Error::Closed));
                told.push(Told {
                    records: records as usize,
                    outcome: known.map(|metadata| metadata.offset),
                });
                continue;
            };
            let ends = parts.iter().skip(1).map(|(begin, _)| *begin);
            let ends: Vec<u32> = ends.chain([u32::MAX]).collect();
            for ((begin, part), end) in parts.into_iter().zip(ends).rev() {
                let (from, to) = (first.max(begin), (first + records).min(end));
                if from < to {
                    open.push((part, from - begin, to - from));
                }
            }
        }
        told
    }
}

impl Future for Delivery {
    type Output = Result<RecordMetadata, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let part = match self.completion.poll(context.waker()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Outcome::Split(parts)) => part_of(parts, self.index).cloned(),
                Poll::Ready(_) => None,
            };
            let Some((first, part)) = part else {
                let known = self.completion.metadata(self.index, self.timestamp);
                return Poll::Ready(known.unwrap_or(Err(Error::Closed)));
            };
            self.index -= first;
            self.completion = part;
        }
    }
}

/// Waits until a batch and all that it was split into are decided, whatever the fate.
pub(super) async fn settled(completion: Arc<Completion>) {
    let mut open = vec![completion];
    while let Some(completion) = open.pop() {
        let parts = completion.parts().await.unwrap_or_default();
        open.extend(parts.into_iter().map(|(_, part)| part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion() -> Arc<Completion> {
        Completion::new("topic".into(), 3)
    }

    fn written(base_offset: Option<i64>) -> Outcome {
        Outcome::Written {
            base_offset,
            append_time: None,
        }
    }

    /// Deliveries of the records `first` to `last` of a batch.
    fn deliveries(completion: &Arc<Completion>, first: u32, last: u32) -> Deliveries {
        let delivery = |index| Delivery::new(completion.clone(), index, 0);
        let mut deliveries = Deliveries::from(delivery(first));
        for index in first + 1..=last {
            assert!(deliveries.add(delivery(index)).is_ok(), "{index}");
        }
        deliveries
    }

    fn figures(told: Vec<Told>) -> Vec<(usize, Option<i64>)> {
        let known = |told: Told| (told.records, told.outcome.ok().flatten());
        told.into_iter().map(known).collect()
    }

    #[test]
    fn only_the_next_record_of_the_same_batch_is_told_with_those_before_it() {
        let (one, other) = (completion(), completion());
        let mut deliveries = deliveries(&one, 4, 6);
        assert!(deliveries.add(Delivery::new(one, 8, 0)).is_err());
        assert!(deliveries.add(Delivery::new(other, 7, 0)).is_err());
        assert_eq!(deliveries.records(), 3);
    }

    #[tokio::test]
    async fn records_of_a_batch_that_is_written_are_told_with_the_offset_of_the_first_of_them() {
        let batch = completion();
        let deliveries = deliveries(&batch, 2, 5);
        batch.complete(written(Some(100)));
        deliveries.decided().await;
        assert_eq!(figures(deliveries.told().await), [(4, Some(102))]);
    }

    #[tokio::test]
    async fn records_of_a_batch_that_went_on_in_parts_are_told_part_by_part() {
        let (batch, parts) = (completion(), [completion(), completion(), completion()]);
        let deliveries = deliveries(&batch, 1, 7);
        parts[0].complete(written(Some(50)));
        parts[1].complete(Outcome::Failed(Error::Closed));
        parts[2].complete(written(Some(70)));
        let [first, second, third] = parts;
        batch.complete(Outcome::Split(vec![(0, first), (3, second), (6, third)]));
        let told = figures(deliveries.told().await);
        assert_eq!(told, [(2, Some(51)), (3, None), (2, Some(70))]);
    }
}
