//! What all commands that talk to a cluster share: which one, with which client properties, and
//! what a client's errors mean for the exit code. Knows nothing of what is asked.

use clap::Args;
use client::admin::Admin;
use client::{AdminConfig, Error, Properties};
use wire::ErrorCode;

use super::exit::{Ending, Failure};

const BOOTSTRAP: &str = "bootstrap.servers";
/// How long a person waits for a cluster that does not answer; Kafka's clients wait for a minute.
pub const PATIENCE_MS: &str = "10000";

/// The cluster to talk to.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Brokers to begin with, as host:port, comma separated; the others are learnt from them.
    #[arg(
        short,
        long,
        visible_alias = "bootstrap",
        value_name = "HOST:PORT",
        env = "CORELOG_BROKERS",
        default_value = "127.0.0.1:9092"
    )]
    brokers: String,
    /// A client property by Kafka's name, for example -X request.timeout.ms=5000. Repeatable.
    #[arg(short = 'X', value_name = "KEY=VALUE", value_parser = key_value)]
    properties: Vec<(String, String)>,
}

impl Target {
    /// Properties for a client. Those from `-X` win over `defaults`, which come from other flags.
    pub fn properties(&self, defaults: &[(&str, Option<String>)]) -> Properties {
        let mut properties = Properties::new();
        properties.insert(BOOTSTRAP.to_owned(), self.brokers.clone());
        properties.insert("client.id".to_owned(), "corelog".to_owned());
        for (name, value) in defaults {
            if let Some(value) = value {
                properties.insert((*name).to_owned(), value.clone());
            }
        }
        properties.extend(self.properties.iter().cloned());
        properties
    }
}

/// An admin client for the target.
///
/// # Errors
/// When a property is unknown or wrong.
pub fn admin(target: &Target) -> Result<Admin, Failure> {
    let defaults = [("default.api.timeout.ms", Some(PATIENCE_MS.to_owned()))];
    let config = AdminConfig::from_properties(&target.properties(&defaults))?;
    Ok(Admin::new(config))
}

/// Reads `key=value`; the value may hold further equal signs, and may be empty.
///
/// # Errors
/// When there is no equal sign, or no key before it.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("expected KEY=VALUE, got \"{text}\"")),
    }
}

/// Runs a conversation with a cluster to its end. One thread does: a command waits for one thing
/// at a time, and the broker for none.
///
/// # Errors
/// Those of the conversation, or when the system refuses a runtime.
pub fn run<T>(conversation: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(|error| {
        let what = format!("cannot start the client: {error}");
        Failure::new(Ending::Failed, what, "Raise the limit of open files.")
    })?;
    let ended = runtime.block_on(conversation);
    // A read of standard input cannot be called back: do not wait for it.
    runtime.shutdown_background();
    ended
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(ending(&error), error.to_string(), error.advice())
    }
}

fn ending(error: &Error) -> Ending {
    match error {
        Error::Connect { .. }
        | Error::Disconnected { .. }
        | Error::RequestTimeout { .. }
        | Error::Timeout { .. } => Ending::Connect,
        Error::DeliveryTimeout {
            last: Some(last), ..
        } => ending(last),
        Error::Config(_) | Error::Invalid { .. } | Error::RecordTooLarge { .. } => Ending::Usage,
        Error::Broker(error) => ending_of_code(error.code),
        _ => Ending::Failed,
    }
}

fn ending_of_code(code: ErrorCode) -> Ending {
    match code {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId
        | ErrorCode::TopicAlreadyExists
        | ErrorCode::ResourceNotFound
        | ErrorCode::GroupIdNotFound
        | ErrorCode::NonEmptyGroup
        | ErrorCode::OffsetOutOfRange => Ending::NotFoundOrConflict,
        ErrorCode::TopicAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed
        | ErrorCode::TransactionalIdAuthorizationFailed
        | ErrorCode::SaslAuthenticationFailed
        | ErrorCode::UnsupportedSaslMechanism => Ending::Auth,
        ErrorCode::InvalidTopicException
        | ErrorCode::InvalidPartitions
        | ErrorCode::InvalidReplicationFactor
        | ErrorCode::InvalidReplicaAssignment
        | ErrorCode::InvalidConfig
        | ErrorCode::InvalidRequest
        | ErrorCode::InvalidRequiredAcks
        | ErrorCode::InvalidRecord
        | ErrorCode::InvalidTimestamp
        | ErrorCode::MessageTooLarge
        | ErrorCode::PolicyViolation => Ending::Usage,
        ErrorCode::BrokerNotAvailable | ErrorCode::NetworkException => Ending::Connect,
        _ => Ending::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_wins_over_the_flag_that_sets_the_same() {
        let target = Target {
            brokers: "a:1".into(),
            properties: vec![("acks".into(), "1".into())],
        };
        let properties = target.properties(&[("acks", Some("all".into())), ("linger.ms", None)]);
        let of = |name: &str| properties.get(name).map(String::as_str);
        assert_eq!((of(BOOTSTRAP), of("acks")), (Some("a:1"), Some("1")));
        assert_eq!(of("linger.ms"), None);
    }

    #[test]
    fn a_pair_is_cut_at_its_first_equal_sign() {
        assert_eq!(key_value("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(key_value("a="), Ok(("a".into(), String::new())));
        assert!(key_value("=b").is_err() && key_value("a").is_err());
    }

    #[test]
    fn exit_codes_tell_missing_refused_and_unreachable_apart() {
        let of = |code: ErrorCode| {
            let error = Error::from_code(code.code(), "topic t").expect("an error");
            Failure::from(error).ending
        };
        let missing = of(ErrorCode::UnknownTopicOrPartition);
        assert_eq!(missing, Ending::NotFoundOrConflict);
        assert_eq!(of(ErrorCode::TopicAuthorizationFailed), Ending::Auth);
        assert_eq!(of(ErrorCode::InvalidConfig), Ending::Usage);
        let lost = Error::Disconnected {
            address: "a:1".into(),
            reason: String::new(),
        };
        assert_eq!(Failure::from(lost).ending, Ending::Connect);
    }
}
