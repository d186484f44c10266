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
    Split(Vec<(u32, Arc<Completion>)>),
}

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
        let parts = std::future::poll_fn(|context| {
            completion
                .poll(context.waker())
                .map(|outcome| match outcome {
                    Outcome::Split(parts) => parts.clone(),
                    _ => Vec::new(),
                })
        });
        open.extend(parts.await.into_iter().map(|(_, part)| part));
    }
}
