//! Settings of topics, brokers and groups: described and altered.

use wire::messages::describe_configs_request::{
    DescribeConfigsRequestData, DescribeConfigsResource,
};
use wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsSynonym,
};
use wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequestData,
};

use super::{Admin, kafka, text};
use crate::Error;

/// What has settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigResource {
    /// A topic, by name.
    Topic(String),
    /// A broker, by node id; `None` for the default of all brokers.
    Broker(Option<i32>),
    /// A consumer group, by its id.
    Group(String),
}

impl ConfigResource {
    /// A topic.
    pub fn topic(name: &str) -> Self {
        Self::Topic(name.to_owned())
    }

    fn code(&self) -> i8 {
        match self {
            Self::Topic(_) => 2,
            Self::Broker(_) => 4,
            Self::Group(_) => 32,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Topic(name) | Self::Group(name) => name.clone(),
            Self::Broker(node) => node.map_or_else(String::new, |node| node.to_string()),
        }
    }

    fn about(&self) -> String {
        match self {
            Self::Topic(name) => format!("topic {name}"),
            Self::Broker(Some(node)) => format!("broker {node}"),
            Self::Broker(None) => "all brokers".to_owned(),
            Self::Group(name) => format!("group {name}"),
        }
    }
}

/// A setting, as described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` when it is null or secret.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it cannot be altered.
    pub is_read_only: bool,
    /// Whether its value is secret.
    pub is_sensitive: bool,
    /// What else would set it, the strongest first.
    pub synonyms: Vec<ConfigSynonym>,
    /// What it does, if the broker says so.
    pub documentation: Option<String>,
}

/// Another place that sets the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// Its name there.
    pub name: String,
    /// Its value there.
    pub value: Option<String>,
    /// That place.
    pub source: ConfigSource,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set for this topic.
    Topic,
    /// Set for this broker at run time.
    DynamicBroker,
    /// Set for all brokers at run time.
    DynamicDefaultBroker,
    /// From the broker's own configuration.
    StaticBroker,
    /// The default.
    Default,
    /// Set for this group.
    Group,
    /// Something newer than this client.
    Other(i8),
}

impl ConfigSource {
    fn from_code(code: i8) -> Self {
        match code {
            1 => Self::Topic,
            2 => Self::DynamicBroker,
            3 => Self::DynamicDefaultBroker,
            4 => Self::StaticBroker,
            5 => Self::Default,
            8 => Self::Group,
            other => Self::Other(other),
        }
    }
}

/// What is done to a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigOperation {
    /// It gets the value.
    Set,
    /// It gets its default.
    Delete,
    /// The value is added to its list.
    Append,
    /// The value is taken out of its list.
    Subtract,
}

impl Admin {
    /// All settings of a topic, broker or group.
    ///
    /// # Errors
    /// When it does not exist, or nobody answered.
    pub async fn describe_config(&self, of: &ConfigResource) -> Result<Vec<ConfigEntry>, Error> {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(of.code())
            .with_resource_name(kafka(&of.name()))
            .with_configuration_keys(None);
        let answer = self
            .attempts(|| async {
                let timeout = self.config.cluster.request_timeout;
                let route = self.route(of).await?;
                let build = |version: i16| {
                    DescribeConfigsRequestData::default()
                        .with_resources(vec![resource.clone()])
                        .with_include_synonyms(true)
                        .with_include_documentation(version >= 3)
                };
                self.cluster.send_built(route, timeout, build).await
            })
            .await?;
        let mut entries = Vec::new();
        for result in &answer.results {
            Error::check(result.error_code, text(&result.error_message), of.about())?;
            entries.extend(result.configs.iter().map(entry));
        }
        Ok(entries)
    }

    /// Sets values, or (`None`) deletes them, so that defaults hold again.
    ///
    /// # Errors
    /// When one is wrong (then none is set), or nobody answered.
    pub async fn alter_config(
        &self,
        of: &ConfigResource,
        values: Vec<(String, Option<String>)>,
        validate_only: bool,
    ) -> Result<(), Error> {
        let change = |(name, value): (String, Option<String>)| match value {
            Some(value) => (name, ConfigOperation::Set, Some(value)),
            None => (name, ConfigOperation::Delete, None),
        };
        let changes = values.into_iter().map(change).collect();
        self.incremental_alter_config(of, changes, validate_only)
            .await
    }

    /// Changes settings one by one (KIP-339).
    ///
    /// # Errors
    /// As [`Admin::alter_config`].
    pub async fn incremental_alter_config(
        &self,
        of: &ConfigResource,
        changes: Vec<(String, ConfigOperation, Option<String>)>,
        validate_only: bool,
    ) -> Result<(), Error> {
        let config = |(name, operation, value): &(String, ConfigOperation, Option<String>)| {
            AlterableConfig::default()
                .with_name(kafka(name))
                .with_config_operation(match operation {
                    ConfigOperation::Set => 0,
                    ConfigOperation::Delete => 1,
                    ConfigOperation::Append => 2,
                    ConfigOperation::Subtract => 3,
                })
                .with_value(value.as_deref().map(kafka))
        };
        let resource = AlterConfigsResource::default()
            .with_resource_type(of.code())
            .with_resource_name(kafka(&of.name()))
            .with_configs(changes.iter().map(config).collect());
        let request = IncrementalAlterConfigsRequestData::default()
            .with_resources(vec![resource])
            .with_validate_only(validate_only);
        let answer = self
            .attempts(|| async {
                self.cluster
                    .send(self.route(of).await?, request.clone())
                    .await
            })
            .await?;
        answer.responses.iter().try_for_each(|result| {
            Error::check(result.error_code, text(&result.error_message), of.about())
        })
    }

    /// A broker's own settings are its own to tell and to change.
    async fn route(&self, of: &ConfigResource) -> Result<crate::Route, Error> {
        match of {
            ConfigResource::Broker(Some(node)) => self.node(*node).await,
            _ => Ok(crate::Route::Any),
        }
    }
}

fn entry(entry: &DescribeConfigsResourceResult) -> ConfigEntry {
    let owned = |text: &Option<wire::KafkaString>| text.as_ref().map(ToString::to_string);
    let synonym = |synonym: &DescribeConfigsSynonym| ConfigSynonym {
        name: synonym.name.to_string(),
        value: owned(&synonym.value),
        source: ConfigSource::from_code(synonym.source),
    };
    ConfigEntry {
        name: entry.name.to_string(),
        value: owned(&entry.value),
        source: ConfigSource::from_code(entry.config_source),
        is_read_only: entry.read_only,
        is_sensitive: entry.is_sensitive,
        synonyms: entry.synonyms.iter().map(synonym).collect(),
        documentation: owned(&entry.documentation),
    }
}
