//! What can go wrong in a client, with Kafka's name for it, whether trying again may help, and what to
//! do next. Knows nothing of where errors arise.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use wire::{ApiKey, ErrorCode, WireError};

/// Why a call failed. Cheap to clone: one failed batch fails many records.
#[derive(Clone, Debug)]
pub enum Error {
    /// A broker answered with an error code.
    Broker(BrokerError),
    /// No connection could be made to any of these addresses.
    Connect {
        /// `host:port`, comma separated.
        addresses: String,
        /// What the operating system said last.
        kind: io::ErrorKind,
        /// The same in words.
        reason: String,
    },
    /// The connection broke while a request was on its way: whether it was carried out is unknown.
    Disconnected {
        /// `host:port`.
        address: String,
        /// What happened to it.
        reason: String,
    },
    /// The broker did not answer in time (`request.timeout.ms`).
    RequestTimeout {
        /// `host:port`.
        address: String,
        /// How long was waited.
        waited: Duration,
    },
    /// Something was not there in time; the setting says how long that is.
    Timeout {
        /// What was waited for.
        what: Cow<'static, str>,
        /// How long was waited.
        waited: Duration,
        /// The property that says how long.
        setting: &'static str,
    },
    /// The broker and this client have no version of an API in common.
    NoCommonVersion {
        /// The API.
        api: ApiKey,
        /// What this client speaks.
        ours: (i16, i16),
        /// What the broker speaks; `None` when it does not know the API at all.
        theirs: Option<(i16, i16)>,
        /// `host:port`.
        address: String,
    },
    /// What was received is no message of the protocol, or what was to be sent does not fit into one.
    Protocol {
        /// What is wrong.
        reason: String,
    },
    /// A record is larger than a request may be (`max.request.size`) or than all the memory there is.
    RecordTooLarge {
        /// Bytes of the record.
        bytes: usize,
        /// Bytes allowed.
        bytes_max: usize,
        /// The property that allows them.
        setting: &'static str,
    },
    /// There was no room for the record (`buffer.memory`) within `max.block.ms`.
    BufferExhausted {
        /// How long was waited.
        waited: Duration,
    },
    /// The records were not acknowledged within `delivery.timeout.ms`.
    DeliveryTimeout {
        /// How long was tried.
        waited: Duration,
        /// Why the last attempt failed.
        last: Option<Box<Error>>,
    },
    /// A key or a value could not be turned into bytes, or back.
    Serialization {
        /// What the serializer said.
        reason: String,
    },
    /// Settings that are unknown or wrong.
    Config(Vec<String>),
    /// What was asked for does not exist, or cannot be asked in this state.
    Invalid {
        /// What is wrong with it.
        reason: String,
    },
    /// The client was closed.
    Closed,
}

/// An error code with its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerError {
    /// Kafka's code.
    pub code: ErrorCode,
    /// The broker's own words, if it had any.
    pub message: Option<String>,
    /// What was asked about: a topic, a partition, a group.
    pub about: Option<String>,
}

impl Error {
    /// The error for a code about something; `None` when the code says that there is no error.
    pub fn from_code(code: i16, about: impl Into<String>) -> Option<Self> {
        Self::from_answer(code, None, about)
    }

    /// As [`Error::from_code`], with the message that came with the code.
    pub fn from_answer(code: i16, message: Option<&str>, about: impl Into<String>) -> Option<Self> {
        let code = ErrorCode::from(code);
        code.is_error().then(|| {
            Self::Broker(BrokerError {
                code,
                message: message.map(str::to_owned),
                about: Some(about.into()),
            })
        })
    }

    /// `Ok` for the code that says so, else the error.
    ///
    /// # Errors
    /// When the code is one.
    pub fn check(code: i16, message: Option<&str>, about: impl Into<String>) -> Result<(), Self> {
        Self::from_answer(code, message, about).map_or(Ok(()), Err)
    }

    /// The broker's error code, if one is the cause.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Broker(error) => Some(error.code),
            _ => None,
        }
    }

    /// Kafka's name for the error, as in its protocol guide; errors that arise in the client have the
    /// name of the code that Kafka's clients give them.
    pub fn name(&self) -> String {
        match self {
            Self::Broker(error) => code_name(error.code),
            Self::Connect { .. } => "BROKER_NOT_AVAILABLE".into(),
            Self::Disconnected { .. } => "NETWORK_EXCEPTION".into(),
            Self::RequestTimeout { .. } => "REQUEST_TIMED_OUT".into(),
            Self::Timeout { .. } | Self::DeliveryTimeout { .. } => "TIMEOUT".into(),
            Self::NoCommonVersion { .. } => "UNSUPPORTED_VERSION".into(),
            Self::Protocol { .. } => "CORRUPT_MESSAGE".into(),
            Self::RecordTooLarge { .. } => "RECORD_TOO_LARGE".into(),
            Self::BufferExhausted { .. } => "BUFFER_EXHAUSTED".into(),
            Self::Serialization { .. } => "SERIALIZATION".into(),
            Self::Config(_) => "INVALID_CONFIG".into(),
            Self::Invalid { .. } => "INVALID_REQUEST".into(),
            Self::Closed => "CLIENT_CLOSED".into(),
        }
    }

    /// Whether the same call may succeed when it is made again.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Broker(error) => code_is_retriable(error.code),
            Self::Connect { .. }
            | Self::Disconnected { .. }
            | Self::RequestTimeout { .. }
            | Self::Timeout { .. }
            | Self::BufferExhausted { .. } => true,
            Self::NoCommonVersion { .. }
            | Self::Protocol { .. }
            | Self::RecordTooLarge { .. }
            | Self::DeliveryTimeout { .. }
            | Self::Serialization { .. }
            | Self::Config(_)
            | Self::Invalid { .. }
            | Self::Closed => false,
        }
    }

    /// Whether the metadata is out of date: who leads must be asked again before the next attempt.
    pub fn is_stale_metadata(&self) -> bool {
        match self {
            Self::Broker(error) => code_is_stale_metadata(error.code),
            Self::Connect { .. } | Self::Disconnected { .. } | Self::RequestTimeout { .. } => true,
            _ => false,
        }
    }

    /// What to do next, as a sentence.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Broker(error) => code_advice(error.code),
            Self::Connect { .. } => {
                "Check that the broker runs and that the address and port are those it listens on."
            }
            Self::Disconnected { .. } => {
                "Look into the broker's log for the reason; the call may be made again."
            }
            Self::RequestTimeout { .. } => {
                "The broker is overloaded or hangs: look at it, or raise request.timeout.ms."
            }
            Self::Timeout { .. } => {
                "Check that the cluster is up and the topic exists, or raise the setting named."
            }
            Self::NoCommonVersion { .. } => "Use a broker of Kafka 2.1 or newer.",
            Self::Protocol { .. } => {
                "Check that a Kafka broker listens there, and that it is not a TLS port."
            }
            Self::RecordTooLarge { .. } => "Send smaller records, or raise the setting named.",
            Self::BufferExhausted { .. } => {
                "Records come faster than brokers take them: send slower, or raise buffer.memory or \
                 max.block.ms."
            }
            Self::DeliveryTimeout { .. } => {
                "Check the brokers, or raise delivery.timeout.ms; the records may or may not have been \
                 written."
            }
            Self::Serialization { .. } => "Check the value against its serializer.",
            Self::Config(_) => "Correct the settings named.",
            Self::Invalid { .. } => "Correct the call.",
            Self::Closed => "Make a new client.",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broker(error) => write!(f, "{error}"),
            Self::Connect {
                addresses, reason, ..
            } => write!(f, "cannot connect to {addresses}: {reason}"),
            Self::Disconnected { address, reason } => {
                write!(f, "the connection to {address} broke: {reason}")
            }
            Self::RequestTimeout { address, waited } => {
                write!(
                    f,
                    "{address} did not answer within {} ms",
                    waited.as_millis()
                )
            }
            Self::Timeout {
                what,
                waited,
                setting,
            } => write!(
                f,
                "{what}: not within {} ms ({setting})",
                waited.as_millis()
            ),
            Self::NoCommonVersion {
                api,
                ours,
                theirs: Some(theirs),
                address,
            } => write!(
                f,
                "{address} speaks {api:?} in versions {} to {}, this client in {} to {}",
                theirs.0, theirs.1, ours.0, ours.1
            ),
            Self::NoCommonVersion { api, address, .. } => {
                write!(f, "{address} does not serve {api:?}")
            }
            Self::Protocol { reason } => write!(f, "not the protocol of Kafka: {reason}"),
            Self::RecordTooLarge {
                bytes,
                bytes_max,
                setting,
            } => write!(
                f,
                "a record of {bytes} bytes is larger than {setting} allows ({bytes_max} bytes)"
            ),
            Self::BufferExhausted { waited } => {
                write!(f, "no buffer memory within {} ms", waited.as_millis())
            }
            Self::DeliveryTimeout { waited, last } => {
                write!(f, "not acknowledged within {} ms", waited.as_millis())?;
                last.iter().try_for_each(|last| write!(f, "; last: {last}"))
            }
            Self::Serialization { reason } => write!(f, "cannot serialize: {reason}"),
            Self::Config(faults) => f.write_str(&faults.join("; ")),
            Self::Invalid { reason } => f.write_str(reason),
            Self::Closed => f.write_str("the client is closed"),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(about) = &self.about {
            write!(f, "{about}: ")?;
        }
        f.write_str(&code_name(self.code))?;
        self.message
            .iter()
            .try_for_each(|message| write!(f, " ({message})"))
    }
}

impl From<WireError> for Error {
    fn from(error: WireError) -> Self {
        Self::Protocol {
            reason: error.to_string(),
        }
    }
}

/// The name of a code as the protocol guide writes it: `NOT_LEADER_OR_FOLLOWER`.
pub fn code_name(code: ErrorCode) -> String {
    if let ErrorCode::Unknown(number) = code {
        return format!("error code {number}");
    }
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// Kafka's `InvalidMetadataException` and its kin.
fn code_is_stale_metadata(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::NetworkException
            | ErrorCode::KafkaStorageError
            | ErrorCode::ListenerNotFound
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
            | ErrorCode::NotController
            | ErrorCode::RebootstrapRequired
    )
}

/// Kafka's `RetriableException` and its kin.
pub(crate) fn code_is_retriable(code: ErrorCode) -> bool {
    code_is_stale_metadata(code)
        || matches!(
            code,
            ErrorCode::CorruptMessage
                | ErrorCode::RequestTimedOut
                | ErrorCode::BrokerNotAvailable
                | ErrorCode::StaleControllerEpoch
                | ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::NotCoordinator
                | ErrorCode::NotEnoughReplicas
                | ErrorCode::NotEnoughReplicasAfterAppend
                | ErrorCode::ConcurrentTransactions
                | ErrorCode::FetchSessionIdNotFound
                | ErrorCode::InvalidFetchSessionEpoch
                | ErrorCode::FetchSessionTopicIdError
                | ErrorCode::OffsetNotAvailable
                | ErrorCode::PreferredLeaderNotAvailable
                | ErrorCode::EligibleLeadersNotAvailable
                | ErrorCode::UnstableOffsetCommit
                | ErrorCode::ThrottlingQuotaExceeded
        )
}

fn code_advice(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId => {
            "Check the topic's name and partition, or create the topic."
        }
        ErrorCode::TopicAlreadyExists => "Use the topic that is there, or another name.",
        ErrorCode::InvalidTopicException => {
            "Use a name of at most 249 letters, digits, dots, underscores and hyphens."
        }
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => {
            "Send smaller records, or raise the topic's max.message.bytes."
        }
        ErrorCode::OffsetOutOfRange => {
            "Start from the earliest or the latest offset, or set auto.offset.reset."
        }
        ErrorCode::NotEnoughReplicas | ErrorCode::NotEnoughReplicasAfterAppend => {
            "Bring the partition's replicas back, or lower min.insync.replicas."
        }
        ErrorCode::InvalidReplicationFactor | ErrorCode::InvalidReplicaAssignment => {
            "Ask for no more replicas than there are brokers."
        }
        ErrorCode::InvalidPartitions => "Ask for more partitions than there are, and at least one.",
        ErrorCode::InvalidConfig => "Correct the setting that the message names.",
        ErrorCode::TopicAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed
        | ErrorCode::TransactionalIdAuthorizationFailed => {
            "Ask the cluster's administrator for the right to do this."
        }
        ErrorCode::SaslAuthenticationFailed => "Check the user name and the password.",
        ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced => {
            "Another producer with the same id took over: stop this one."
        }
        ErrorCode::OutOfOrderSequenceNumber | ErrorCode::UnknownProducerId => {
            "Earlier records of this producer are missing in the partition: check what was written."
        }
        ErrorCode::FencedInstanceId => {
            "Another member with the same group.instance.id took over: stop this one."
        }
        ErrorCode::UnreleasedInstanceId => {
            "Another member with the same group.instance.id is still in the group: stop it, or wait until its \
             session has ended."
        }
        ErrorCode::UnsupportedAssignor => {
            "Name one of the brokers' group.consumer.assignors in group.remote.assignor."
        }
        ErrorCode::GroupIdNotFound => {
            "Check the group's name, and whether it has members by the other group.protocol."
        }
        ErrorCode::UnsupportedVersion => "Use a newer broker, or leave the feature out.",
        ErrorCode::UnsupportedCompressionType => "Use another compression.type.",
        ErrorCode::CorruptMessage => "Bytes were damaged on the way: send them again.",
        code if code_is_retriable(code) => "Try again in a moment.",
        _ => "Look into the broker's log for the reason.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_name_of_the_protocol_guide() {
        for (code, name) in [
            (6, "NOT_LEADER_OR_FOLLOWER"),
            (3, "UNKNOWN_TOPIC_OR_PARTITION"),
            (45, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
            (9_999, "error code 9999"),
        ] {
            assert_eq!(code_name(ErrorCode::from(code)), name);
        }
    }

    #[test]
    fn stale_metadata_is_always_worth_another_attempt() {
        for code in -1..200 {
            let code = ErrorCode::from(code);
            assert!(!code_is_stale_metadata(code) || code_is_retriable(code));
        }
        assert!(!code_is_retriable(ErrorCode::MessageTooLarge));
        assert!(code_is_retriable(ErrorCode::KafkaStorageError));
    }
}
