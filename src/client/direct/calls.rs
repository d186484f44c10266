//! The calls that tests of a broker need, typed. Knows nothing of retries or routing: it speaks to the
//! one broker that it is connected to.

use bytes::Bytes;
use wire::messages::create_topics_request::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequestData,
};
use wire::messages::fetch_request::{FetchPartition, FetchRequestData, FetchTopic};
use wire::messages::produce_request::{PartitionProduceData, ProduceRequestData, TopicProduceData};
use wire::messages::{ApiVersionsRequestData, InitProducerIdRequestData};
use wire::request::Request;
use wire::response::Response;
use wire::{KafkaString, batch};

use super::connection::{Connection, Error};

const API_VERSIONS: i16 = 3;
const CREATE_TOPICS: i16 = 5;
const INIT_PRODUCER_ID: i16 = 4;
/// The last versions that name topics instead of giving their ids.
const PRODUCE: i16 = 11;
const FETCH: i16 = 12;

/// A producer's `acks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The leader's write.
    Leader,
    /// Every in-sync replica's flush.
    All,
}

/// An idempotent producer's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Its id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
}

/// One record batch as it was fetched.
#[derive(Clone, Debug)]
pub struct FetchedBatch {
    /// The offset of its first record.
    pub base_offset: i64,
    /// The whole batch.
    pub bytes: Bytes,
}

impl Connection {
    /// Asks for the served APIs: whether the broker answers at all.
    ///
    /// # Errors
    /// As [`Connection::call`], and the broker's own.
    pub async fn api_versions(&mut self) -> Result<usize, Error> {
        let request = ApiVersionsRequestData::default()
            .with_client_software_name(KafkaString::from_static("corelog-client"))
            .with_client_software_version(KafkaString::from_static("1"));
        match self.call(API_VERSIONS, &request.into()).await? {
            Response::ApiVersions(answer) => {
                succeeded(answer.error_code).map(|()| answer.api_keys.len())
            }
            _ => Err(Error::Unexpected("an ApiVersions response")),
        }
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// As [`Connection::call`], and the broker's own.
    pub async fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<(), Error> {
        let config = |(key, value): &(&str, &str)| {
            CreatableTopicConfig::default()
                .with_name(KafkaString::from((*key).to_owned()))
                .with_value(Some(KafkaString::from((*value).to_owned())))
        };
        let topic = CreatableTopic::default()
            .with_name(KafkaString::from(name.to_owned()))
            .with_num_partitions(partitions)
            .with_replication_factor(-1)
            .with_configs(configs.iter().map(config).collect());
        let request = CreateTopicsRequestData::default()
            .with_topics(vec![topic])
            .with_timeout_ms(10_000);
        match self.call(CREATE_TOPICS, &request.into()).await? {
            Response::CreateTopics(answer) => {
                succeeded(answer.topics.first().map_or(-1, |topic| topic.error_code))
            }
            _ => Err(Error::Unexpected("a CreateTopics response")),
        }
    }

    /// Gets the identity of a new idempotent producer.
    ///
    /// # Errors
    /// As [`Connection::call`], and the broker's own.
    pub async fn init_producer(&mut self) -> Result<Producer, Error> {
        let request = InitProducerIdRequestData::default()
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(-1)
            .with_producer_epoch(-1);
        match self.call(INIT_PRODUCER_ID, &request.into()).await? {
            Response::InitProducerId(answer) => succeeded(answer.error_code).map(|()| Producer {
                id: answer.producer_id,
                epoch: answer.producer_epoch,
            }),
            _ => Err(Error::Unexpected("an InitProducerId response")),
        }
    }

    /// Produces one batch; returns the offset of its first record.
    ///
    /// # Errors
    /// As [`Connection::call`], and the broker's own.
    pub async fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        acks: Acks,
        batch: Bytes,
    ) -> Result<i64, Error> {
        self.ask_produce(topic, partition, acks, batch).await?;
        self.answer_produce().await
    }

    /// Sends one batch; [`Connection::answer_produce`] takes its answer.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn ask_produce(
        &mut self,
        topic: &str,
        partition: i32,
        acks: Acks,
        batch: Bytes,
    ) -> Result<(), Error> {
        let partition = PartitionProduceData::default()
            .with_index(partition)
            .with_records(Some(batch));
        let topic = TopicProduceData::default()
            .with_name(KafkaString::from(topic.to_owned()))
            .with_partition_data(vec![partition]);
        let acks = match acks {
            Acks::Leader => 1,
            Acks::All => -1,
        };
        let request = ProduceRequestData::default()
            .with_acks(acks)
            .with_timeout_ms(10_000)
            .with_topic_data(vec![topic]);
        self.ask(PRODUCE, &request.into()).await
    }

    /// Waits for the answer to the oldest batch that was sent; returns the offset of its first record.
    ///
    /// # Errors
    /// As [`Connection::answer`], and the broker's own.
    pub async fn answer_produce(&mut self) -> Result<i64, Error> {
        let Response::Produce(answer) = self.answer().await? else {
            return Err(Error::Unexpected("a Produce response"));
        };
        let partition = answer
            .responses
            .first()
            .and_then(|topic| topic.partition_responses.first());
        let partition = partition.ok_or(Error::Unexpected("about the partition asked for"))?;
        succeeded(partition.error_code).map(|()| partition.base_offset)
    }

    /// Fetches what is there from an offset on: the high watermark and whole batches.
    ///
    /// # Errors
    /// As [`Connection::call`], and the broker's own.
    pub async fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<(i64, Vec<FetchedBatch>), Error> {
        const BYTES_MAX: i32 = 8 << 20;
        let partition = FetchPartition::default()
            .with_partition(partition)
            .with_current_leader_epoch(-1)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(BYTES_MAX);
        let topic = FetchTopic::default()
            .with_topic(KafkaString::from(topic.to_owned()))
            .with_partitions(vec![partition]);
        let request = FetchRequestData::default()
            .with_replica_id(-1)
            .with_max_wait_ms(0)
            .with_min_bytes(0)
            .with_max_bytes(BYTES_MAX)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        let Response::Fetch(answer) = self.call(FETCH, &Request::Fetch(request)).await? else {
            return Err(Error::Unexpected("a Fetch response"));
        };
        succeeded(answer.error_code)?;
        let partition = answer
            .responses
            .first()
            .and_then(|topic| topic.partitions.first());
        let partition = partition.ok_or(Error::Unexpected("about the partition asked for"))?;
        succeeded(partition.error_code)?;
        let records = partition.records.clone().unwrap_or_default();
        let batches = batch::split(&records).map(|view| FetchedBatch {
            base_offset: view.header.base_offset(),
            bytes: records.slice_ref(view.bytes),
        });
        Ok((partition.high_watermark, batches.collect()))
    }
}

fn succeeded(code: i16) -> Result<(), Error> {
    if code == 0 {
        Ok(())
    } else {
        Err(Error::Broker(code))
    }
}
