//! One broker's incremental fetch session, as the client keeps it (KIP-227). Pure; knows nothing of
//! positions or of what a fetch brings.

use std::collections::BTreeMap;

use wire::{ErrorCode, KafkaUuid};

use super::super::partition::TopicPartition;

/// What is wanted of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) topic_id: Option<KafkaUuid>,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) bytes_max: i32,
}

/// What a request says so that the broker knows all that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) id: i32,
    pub(crate) epoch: i32,
    /// All partitions in a first request; then only those that are new or wanted differently.
    pub(crate) partitions: Vec<(TopicPartition, Wanted)>,
    /// Those no longer wanted, with the topic id that they were asked for by.
    pub(crate) forgotten: Vec<(TopicPartition, Option<KafkaUuid>)>,
}

/// The session with one broker. One request at a time.
#[derive(Debug, Default)]
pub(crate) struct FetchSession {
    /// 0 while there is none.
    id: i32,
    /// Of the next request; 0 asks for a new session (and ends the one of `id`).
    epoch: i32,
    /// What the broker knows once the request on its way has arrived.
    known: BTreeMap<TopicPartition, Wanted>,
}

impl FetchSession {
    /// What to send so that the broker fetches exactly `wanted`.
    pub(crate) fn request(&mut self, wanted: BTreeMap<TopicPartition, Wanted>) -> Said {
        let known = if self.epoch == 0 {
            BTreeMap::new()
        } else {
            std::mem::take(&mut self.known)
        };
        let changed = wanted
            .iter()
            .filter(|(partition, wanted)| known.get(partition) != Some(wanted));
        let partitions = changed.map(|(partition, wanted)| (partition.clone(), *wanted));
        // A topic that was made anew under the same name is another topic: the old one is forgotten.
        let gone = known.iter().filter(|(partition, known)| {
            wanted
                .get(partition)
                .is_none_or(|wanted| wanted.topic_id != known.topic_id)
        });
        let said = Said {
            id: self.id,
            epoch: self.epoch,
            partitions: partitions.collect(),
            forgotten: gone
                .map(|(partition, known)| (partition.clone(), known.topic_id))
                .collect(),
        };
        self.known = wanted;
        said
    }

    /// What an answer about a partition was asked with; incremental answers leave out what has not
    /// changed since.
    pub(crate) fn known(&self, partition: &TopicPartition) -> Option<Wanted> {
        self.known.get(partition).copied()
    }

    /// The name behind a topic id of an answer.
    pub(crate) fn topic(&self, id: KafkaUuid) -> Option<&TopicPartition> {
        let mut known = self.known.iter();
        let found = known.find(|(_, wanted)| wanted.topic_id == Some(id));
        found.map(|(partition, _)| partition)
    }

    /// The request was answered; `id` is the answer's session id.
    pub(crate) fn answered(&mut self, id: i32) {
        if id == 0 {
            // The broker keeps no session for this client (any more).
            self.id = 0;
            self.epoch = 0;
        } else {
            self.id = id;
            self.epoch = if self.epoch == i32::MAX {
                1
            } else {
                self.epoch + 1
            };
        }
    }

    /// The request failed: what the broker knows is unknown, so a new session is asked for.
    pub(crate) fn failed(&mut self, code: ErrorCode) {
        if code == ErrorCode::FetchSessionIdNotFound {
            self.id = 0;
        }
        self.epoch = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    fn wanted(offsets: &[(i32, i64)]) -> BTreeMap<TopicPartition, Wanted> {
        let wanted = |&(partition, offset)| {
            let wanted = Wanted {
                topic_id: Some(KafkaUuid::from_parts(1, 1)),
                offset,
                leader_epoch: 0,
                bytes_max: 1,
            };
            (at(partition), wanted)
        };
        offsets.iter().map(wanted).collect()
    }

    fn numbers(said: &Said) -> (i32, i32, Vec<i32>, Vec<i32>) {
        let partitions = said.partitions.iter().map(|(it, _)| it.partition);
        let forgotten = said.forgotten.iter().map(|(it, _)| it.partition);
        (
            said.id,
            said.epoch,
            partitions.collect(),
            forgotten.collect(),
        )
    }

    #[test]
    fn after_the_first_request_only_changes_are_said() {
        let mut session = FetchSession::default();
        let said = session.request(wanted(&[(0, 5), (1, 5), (2, 5)]));
        assert_eq!(numbers(&said), (0, 0, vec![0, 1, 2], vec![]));
        session.answered(77);
        let said = session.request(wanted(&[(0, 6), (2, 5), (3, 0)]));
        assert_eq!(numbers(&said), (77, 1, vec![0, 3], vec![1]));
        session.answered(77);
        let said = session.request(wanted(&[(0, 6), (2, 5), (3, 0)]));
        assert_eq!(numbers(&said), (77, 2, vec![], vec![]));
    }

    #[test]
    fn a_lost_session_begins_again_with_everything() {
        let mut session = FetchSession::default();
        session.request(wanted(&[(0, 5)]));
        session.answered(77);
        session.request(wanted(&[(0, 5)]));
        session.failed(ErrorCode::FetchSessionIdNotFound);
        let said = session.request(wanted(&[(0, 5)]));
        assert_eq!(numbers(&said), (0, 0, vec![0], vec![]));
        session.answered(78);
        session.request(wanted(&[(0, 5)]));
        session.failed(ErrorCode::InvalidFetchSessionEpoch);
        let said = session.request(wanted(&[(0, 5)]));
        assert_eq!(
            numbers(&said),
            (78, 0, vec![0], vec![]),
            "the old one is ended"
        );
    }

    #[test]
    fn a_broker_without_sessions_is_told_everything_each_time() {
        let mut session = FetchSession::default();
        for _ in 0..2 {
            let said = session.request(wanted(&[(0, 5)]));
            assert_eq!(numbers(&said), (0, 0, vec![0], vec![]));
            session.answered(0);
        }
    }

    #[test]
    fn a_topic_made_anew_is_forgotten_under_its_old_id_and_asked_for_under_its_new_one() {
        let mut session = FetchSession::default();
        session.request(wanted(&[(0, 5)]));
        session.answered(7);
        let mut anew = wanted(&[(0, 0)]);
        let new_id = Some(KafkaUuid::from_parts(2, 2));
        anew.values_mut().for_each(|it| it.topic_id = new_id);
        let said = session.request(anew);
        assert_eq!(said.forgotten, [(at(0), Some(KafkaUuid::from_parts(1, 1)))]);
        assert_eq!(said.partitions[0].1.topic_id, new_id);
    }

    #[test]
    fn the_epoch_wraps_to_one_and_never_to_zero() {
        let mut session = FetchSession {
            id: 7,
            epoch: i32::MAX,
            ..FetchSession::default()
        };
        session.answered(7);
        assert_eq!(session.request(wanted(&[])).epoch, 1);
    }
}
