//! `corelog config describe|set|delete`: configs of topics and brokers, over the protocol. Knows
//! nothing of the broker's own settings file, which `corelog config show` is about.

use clap::Args;
use serde::Serialize;
use wire::messages::describe_configs_response::DescribeConfigsResourceResult;

use super::admin::{Admin, Change, Resource};
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
    broker: Option<Resource>,
}

fn broker(text: &str) -> Result<Resource, String> {
    match text.parse() {
        Ok(node) if node >= 0 => Ok(Resource::Broker(node)),
        _ if text == "default" => Ok(Resource::AllBrokers),
        _ => Err("expected a node id, or default".into()),
    }
}

impl Whose {
    fn resource(&self) -> Resource {
        match (&self.topic, &self.broker) {
            (Some(topic), _) => Resource::Topic(topic.clone()),
            (None, Some(broker)) => broker.clone(),
            (None, None) => Resource::AllBrokers,
        }
    }
}

/// Print configs of a topic or a broker: those that somebody set, or all.
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

/// Set configs of a topic or a broker, all or none.
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

/// Set configs of a topic or a broker back to their defaults, all or none.
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

impl From<&DescribeConfigsResourceResult> for Setting {
    fn from(config: &DescribeConfigsResourceResult) -> Self {
        Self {
            name: config.name.to_string(),
            value: config.value.as_ref().map(ToString::to_string),
            source: source_name(config.config_source),
            read_only: config.read_only,
            sensitive: config.is_sensitive,
            documentation: config.documentation.as_ref().map(ToString::to_string),
        }
    }
}

/// Kafka's sources of a config's value, in the words of its documentation.
fn source_name(source: i8) -> &'static str {
    match source {
        1 => "topic",
        2 => "broker",
        3 => "all brokers",
        4 => "broker's file",
        5 => "default",
        6 => "broker's logger",
        _ => "unknown",
    }
}

/// Whether somebody set it for this very resource or for brokers: it is no default.
pub fn is_set(config: &DescribeConfigsResourceResult) -> bool {
    config.config_source != 5
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
    let resource = describe.whose.resource();
    let configs = connect::run(async {
        let admin = Admin::new(&describe.target)?;
        Ok(admin.configs(&resource).await?)
    })?;
    let keys = &describe.keys;
    let unknown = keys
        .iter()
        .find(|key| !configs.iter().any(|it| it.name.as_str() == key.as_str()));
    if let Some(key) = unknown {
        return Err(Failure::new(
            Ending::NotFoundOrConflict,
            format!("{resource} has no config {key}"),
            "See which there are with --all.",
        ));
    }
    let wanted = |config: &&DescribeConfigsResourceResult| match keys.is_empty() {
        true => describe.all || is_set(config),
        false => keys.iter().any(|key| key == config.name.as_str()),
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
    let changes = changes.map(|(name, value)| (name.clone(), Change::Set(value.clone())));
    alter(&set.target, &set.whose, changes.collect(), set.dry_run)
}

/// Sets configs back.
///
/// # Errors
/// When the broker refuses one of them.
pub fn delete(delete: &Delete) -> Result<Ending, Failure> {
    let changes = delete
        .keys
        .iter()
        .map(|name| (name.clone(), Change::Delete));
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
    changes: Vec<(String, Change)>,
    dry_run: bool,
) -> Result<Ending, Failure> {
    connect::run(async {
        let admin = Admin::new(target)?;
        admin
            .alter_configs(&whose.resource(), &changes, dry_run)
            .await?;
        Ok(Ending::Done)
    })
}
