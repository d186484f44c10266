//! `corelog config describe|set|delete`: configs of topics, brokers and groups, over the protocol. Knows
//! nothing of the broker's own settings file, which `corelog config show` is about.

use clap::Args;
use client::admin::{ConfigEntry, ConfigResource, ConfigSource};
use serde::Serialize;

use super::connect::{self, Target, key_value};
use super::exit::{Ending, Failure, written};
use super::output::{self, Format, Listed};

/// Whose configs.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
struct Whose {
    /// A topic's.
    #[arg(short, long, value_name = "TOPIC")]
    topic: Option<String>,
    /// A broker's, by its node id; `default` for what holds for all brokers.
    #[arg(long, value_name = "ID", value_parser = broker)]
    broker: Option<ConfigResource>,
    /// A consumer group's, by its id; there need not be such a group yet.
    #[arg(short, long, value_name = "GROUP")]
    group: Option<String>,
}

fn broker(text: &str) -> Result<ConfigResource, String> {
    match text.parse() {
        Ok(node) if node >= 0 => Ok(ConfigResource::Broker(Some(node))),
        _ if text == "default" => Ok(ConfigResource::Broker(None)),
        _ => Err("expected a node id, or default".into()),
    }
}

impl Whose {
    fn resource(&self) -> ConfigResource {
        match (&self.topic, &self.broker, &self.group) {
            (Some(topic), _, _) => ConfigResource::Topic(topic.clone()),
            (None, Some(broker), _) => broker.clone(),
            (None, None, Some(group)) => ConfigResource::Group(group.clone()),
            (None, None, None) => ConfigResource::Broker(None),
        }
    }
}

/// Print configs of a topic, a broker or a group: those that somebody set, or all.
#[derive(Clone, Debug, Args)]
pub struct Describe {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    whose: Whose,
    /// Defaults too.
    #[arg(short, long)]
    all: bool,
    /// Only these.
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// How to print.
    #[arg(short, long, short_alias = 'O', value_enum, default_value_t)]
    output: Format,
}

/// Set configs of a topic, a broker or a group, all or none.
#[derive(Clone, Debug, Args)]
pub struct Set {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    whose: Whose,
    /// What to set.
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = key_value)]
    configs: Vec<(String, String)>,
    /// Only ask whether it could be done.
    #[arg(long)]
    dry_run: bool,
}

/// Set configs of a topic, a broker or a group back to their defaults, all or none.
#[derive(Clone, Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    whose: Whose,
    /// What to set back.
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Only ask whether it could be done.
    #[arg(long)]
    dry_run: bool,
}

/// A config with its value.
#[derive(Serialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value; none for a secret.
    pub value: Option<String>,
    /// Where the value comes from.
    source: &'static str,
    read_only: bool,
    sensitive: bool,
    documentation: Option<String>,
}

impl From<&ConfigEntry> for Setting {
    fn from(config: &ConfigEntry) -> Self {
        Self {
            name: config.name.clone(),
            value: config.value.clone(),
            source: source_name(config.source),
            read_only: config.is_read_only,
            sensitive: config.is_sensitive,
            documentation: config.documentation.clone(),
        }
    }
}

fn source_name(source: ConfigSource) -> &'static str {
    match source {
        ConfigSource::Topic => "topic",
        ConfigSource::DynamicBroker => "broker",
        ConfigSource::DynamicDefaultBroker => "all brokers",
        ConfigSource::StaticBroker => "broker's file",
        ConfigSource::Default => "default",
        ConfigSource::Group => "group",
        ConfigSource::Other(_) => "unknown",
    }
}

/// Whether somebody set it, for this very resource or for brokers.
pub fn is_set(config: &ConfigEntry) -> bool {
    config.source != ConfigSource::Default
}

impl Listed for Setting {
    const COLUMNS: &'static [&'static str] = &["NAME", "VALUE", "SOURCE"];

    fn cells(&self) -> Vec<String> {
        let value = match (&self.value, self.sensitive) {
            (Some(value), _) => value.clone(),
            (None, true) => "(secret)".into(),
            (None, false) => String::new(),
        };
        vec![self.name.clone(), value, self.source.to_owned()]
    }
}

/// Prints configs.
///
/// # Errors
/// When there is no such resource, or no such config in it.
pub fn describe(describe: &Describe) -> Result<Ending, Failure> {
    let mut configs = connect::run(async {
        let admin = connect::admin(&describe.target)?;
        Ok(admin.describe_config(&describe.whose.resource()).await?)
    })?;
    configs.sort_by(|a, b| a.name.cmp(&b.name));
    let keys = &describe.keys;
    let is_there = |key: &&String| configs.iter().any(|config| config.name == **key);
    if let Some(key) = keys.iter().find(|key| !is_there(key)) {
        return Err(Failure::new(
            Ending::NotFoundOrConflict,
            format!("there is no config {key}"),
            "See which there are with --all.",
        ));
    }
    let wanted = |config: &&ConfigEntry| match keys.is_empty() {
        true => describe.all || is_set(config),
        false => keys.contains(&config.name),
    };
    let rows: Vec<Setting> = configs.iter().filter(wanted).map(Setting::from).collect();
    let mut out = std::io::stdout();
    written(output::list(&mut out, describe.output, &rows))?;
    Ok(Ending::Done)
}

/// Sets configs.
///
/// # Errors
/// When the broker refuses one of them.
pub fn set(set: &Set) -> Result<Ending, Failure> {
    let changes = set.configs.iter();
    let changes = changes.map(|(name, value)| (name.clone(), Some(value.clone())));
    alter(&set.target, &set.whose, changes.collect(), set.dry_run)
}

/// Sets configs back.
///
/// # Errors
/// When the broker refuses one of them.
pub fn delete(delete: &Delete) -> Result<Ending, Failure> {
    let changes = delete.keys.iter().map(|name| (name.clone(), None));
    alter(
        &delete.target,
        &delete.whose,
        changes.collect(),
        delete.dry_run,
    )
}

fn alter(
    target: &Target,
    whose: &Whose,
    changes: Vec<(String, Option<String>)>,
    dry_run: bool,
) -> Result<Ending, Failure> {
    connect::run(async {
        let admin = connect::admin(target)?;
        admin
            .alter_config(&whose.resource(), changes, dry_run)
            .await?;
        Ok(Ending::Done)
    })
}
