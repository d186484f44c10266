//! `corelog topic`: make, list, look at, change and delete topics. Knows nothing of how brokers are
//! asked.

use std::io::Write;

use clap::{Args, Subcommand};
use client::cluster::{Partition, Topic};
use client::{Error, code_name};
use serde::Serialize;
use wire::ErrorCode;

use super::admin::{Admin, Change, EARLIEST, LATEST, NewTopic, Resource};
use super::config::{Setting, is_set};
use super::connect::{self, Target, key_value};
use super::exit::{Ending, Failure, written};
use super::output::{self, Format, Listed, complain};

/// What to do with topics.
#[derive(Clone, Debug, Subcommand)]
pub enum TopicCommand {
    /// Make topics.
    Create(Create),
    /// List topics.
    List(List),
    /// Say where partitions are, what they hold, and how a topic is configured.
    Describe(Describe),
    /// Give a topic more partitions, or other configs.
    Alter(Alter),
    /// Delete topics and all that is in them.
    Delete(Delete),
}

/// Topics by name.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
struct Names {
    /// Topics.
    #[arg(value_name = "TOPIC")]
    names: Vec<String>,
    /// The same, as a flag. Repeatable.
    #[arg(short = 't', long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
}

impl Names {
    fn all(&self) -> impl Iterator<Item = &String> {
        self.names.iter().chain(&self.topics)
    }
}

/// Make topics.
#[derive(Clone, Debug, Args)]
pub struct Create {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    names: Names,
    /// Partitions of each; by default what the broker's num.partitions says.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Replicas of each partition; by default what the broker's default.replication.factor says.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replication_factor: Option<i16>,
    /// A config, for example -c retention.ms=3600000. Repeatable.
    #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = key_value)]
    configs: Vec<(String, String)>,
    /// A topic that is there already is no error.
    #[arg(long)]
    if_not_exists: bool,
    /// Only ask whether it could be done.
    #[arg(long)]
    dry_run: bool,
    /// How to print.
    #[arg(short, long, short_alias = 'O', value_enum, default_value_t)]
    output: Format,
}

/// List topics.
#[derive(Clone, Debug, Args)]
pub struct List {
    #[command(flatten)]
    target: Target,
    /// The brokers' own topics too.
    #[arg(long)]
    internal: bool,
    /// How to print.
    #[arg(short, long, short_alias = 'O', value_enum, default_value_t)]
    output: Format,
}

/// Say where partitions are, what they hold, and how a topic is configured.
#[derive(Clone, Debug, Args)]
pub struct Describe {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    names: Names,
    /// How to print.
    #[arg(short, long, short_alias = 'O', value_enum, default_value_t)]
    output: Format,
}

/// Give a topic more partitions, or other configs.
#[derive(Clone, Debug, Args)]
pub struct Alter {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    names: Names,
    /// How many partitions there shall be. Keys go to other partitions from then on.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// A config to set. Repeatable.
    #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = key_value)]
    configs: Vec<(String, String)>,
    /// A config to set back to its default. Repeatable.
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
    /// Only ask whether it could be done.
    #[arg(long)]
    dry_run: bool,
}

/// Delete topics and all that is in them.
#[derive(Clone, Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    names: Names,
    /// A topic that is not there is no error.
    #[arg(long)]
    if_exists: bool,
}

/// Does what was asked.
///
/// # Errors
/// When nothing of it could be done.
pub fn run(command: &TopicCommand) -> Result<Ending, Failure> {
    connect::run(async {
        match command {
            TopicCommand::Create(it) => it.run().await,
            TopicCommand::List(it) => it.run().await,
            TopicCommand::Describe(it) => it.run().await,
            TopicCommand::Alter(it) => it.run().await,
            TopicCommand::Delete(it) => it.run().await,
        }
    })
}

/// Tells each failure of several, and ends as they do.
fn end(total: usize, failures: Vec<Failure>) -> Result<Ending, Failure> {
    if let (1, [only]) = (total, failures.as_slice()) {
        return Err(only.clone());
    }
    failures.iter().for_each(complain);
    Ok(Ending::of_many(total, &failures))
}

/// A topic that was made.
#[derive(Serialize)]
struct Created {
    name: String,
    id: Option<String>,
    partitions: i32,
    replication_factor: i16,
    created: bool,
}

impl Listed for Created {
    const COLUMNS: &'static [&'static str] = &["NAME", "PARTITIONS", "REPLICATION", "CREATED"];

    fn cells(&self) -> Vec<String> {
        // Brokers older than 2.4 do not say how many.
        let number = |it: i32| {
            if it < 0 {
                "default".into()
            } else {
                it.to_string()
            }
        };
        vec![
            self.name.clone(),
            number(self.partitions),
            number(self.replication_factor.into()),
            if self.created { "yes" } else { "no" }.into(),
        ]
    }
}

impl Create {
    async fn run(&self) -> Result<Ending, Failure> {
        let admin = Admin::new(&self.target)?;
        let (mut rows, mut failures, mut total) = (Vec::new(), Vec::new(), 0);
        for name in self.names.all() {
            total += 1;
            let topic = NewTopic {
                name: name.clone(),
                partitions: self.partitions.unwrap_or(-1),
                replication_factor: self.replication_factor.unwrap_or(-1),
                configs: self.configs.clone(),
            };
            match admin.create_topic(&topic, self.dry_run).await {
                Ok(made) => rows.push(Created {
                    name: topic.name,
                    id: (!made.topic_id.is_nil()).then(|| made.topic_id.to_string()),
                    partitions: made.num_partitions,
                    replication_factor: made.replication_factor,
                    created: !self.dry_run,
                }),
                Err(error)
                    if self.if_not_exists
                        && error.code() == Some(ErrorCode::TopicAlreadyExists) => {}
                Err(error) => failures.push(error.into()),
            }
        }
        if !rows.is_empty() || self.output != Format::Table {
            let mut out = std::io::stdout();
            written(output::list(&mut out, self.output, &rows))?;
        }
        end(total, failures)
    }
}

/// A topic in a list.
#[derive(Serialize)]
struct Summary {
    name: String,
    id: Option<String>,
    partitions: usize,
    replication_factor: usize,
    internal: bool,
    error: Option<String>,
}

impl Listed for Summary {
    const COLUMNS: &'static [&'static str] = &["NAME", "PARTITIONS", "REPLICATION", "ID"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.partitions.to_string(),
            self.replication_factor.to_string(),
            self.error.clone().or(self.id.clone()).unwrap_or_default(),
        ]
    }
}

fn replication_factor(topic: &Topic) -> usize {
    let replicas = topic.partitions.iter().map(|it| it.replicas.len());
    replicas.max().unwrap_or(0)
}

impl List {
    async fn run(&self) -> Result<Ending, Failure> {
        let metadata = Admin::new(&self.target)?.metadata().await?;
        let mut rows: Vec<Summary> = metadata
            .topics
            .values()
            .filter(|topic| self.internal || !topic.is_internal)
            .map(|topic| Summary {
                name: topic.name.to_string(),
                id: topic.id.map(|id| id.to_string()),
                partitions: topic.partitions.len(),
                replication_factor: replication_factor(topic),
                internal: topic.is_internal,
                error: topic.error.map(code_name),
            })
            .collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        written(output::list(&mut std::io::stdout(), self.output, &rows))?;
        Ok(Ending::Done)
    }
}

/// All of a topic.
#[derive(Serialize)]
struct Described {
    name: String,
    id: Option<String>,
    internal: bool,
    partitions: Vec<DescribedPartition>,
    /// What is not as by default.
    configs: Vec<Setting>,
}

/// A partition of a topic.
#[derive(Serialize)]
struct DescribedPartition {
    partition: i32,
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<i32>,
    in_sync: Vec<i32>,
    offline: Vec<i32>,
    /// The first offset; none when nobody says.
    earliest: Option<i64>,
    /// The offset of the next record; none when nobody says.
    latest: Option<i64>,
}

impl Listed for DescribedPartition {
    const COLUMNS: &'static [&'static str] = &[
        "PARTITION",
        "LEADER",
        "EPOCH",
        "REPLICAS",
        "IN-SYNC",
        "OFFLINE",
        "EARLIEST",
        "LATEST",
    ];

    fn cells(&self) -> Vec<String> {
        let nodes = |nodes: &[i32]| {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            nodes.join(",")
        };
        let offset = |offset: Option<i64>| offset.map_or("?".into(), |it| it.to_string());
        vec![
            self.partition.to_string(),
            self.leader.map_or("none".into(), |it| it.to_string()),
            self.leader_epoch.to_string(),
            nodes(&self.replicas),
            nodes(&self.in_sync),
            nodes(&self.offline),
            offset(self.earliest),
            offset(self.latest),
        ]
    }
}

impl Describe {
    async fn run(&self) -> Result<Ending, Failure> {
        let admin = Admin::new(&self.target)?;
        let metadata = admin.metadata().await?;
        let (mut topics, mut failures, mut total) = (Vec::new(), Vec::new(), 0);
        for name in self.names.all() {
            total += 1;
            let described = match metadata.topics.get(name.as_str()) {
                Some(topic) => describe(&admin, topic).await,
                None => Err(unknown(name)),
            };
            match described {
                Ok(topic) => topics.push(topic),
                Err(error) => failures.push(error.into()),
            }
        }
        let mut out = std::io::stdout().lock();
        written(match self.output {
            Format::Table => topics.iter().try_for_each(|it| it.print(&mut out)),
            Format::Json => output::json(&mut out, &topics),
            Format::Jsonl => topics
                .iter()
                .try_for_each(|it| output::json_line(&mut out, it)),
        })?;
        end(total, failures)
    }
}

fn unknown(name: &str) -> Error {
    let code = ErrorCode::UnknownTopicOrPartition;
    Error::Broker(client::BrokerError {
        code,
        message: None,
        about: Some(format!("topic {name}")),
    })
}

async fn describe(admin: &Admin, topic: &Topic) -> Result<Described, Error> {
    if let Some(code) = topic.error {
        Error::check(code.code(), None, format!("topic {}", topic.name))?;
    }
    let earliest = admin.offsets(topic, EARLIEST).await?;
    let latest = admin.offsets(topic, LATEST).await?;
    let configs = admin
        .configs(&Resource::Topic(topic.name.to_string()))
        .await?;
    let partition = |it: &Partition| DescribedPartition {
        partition: it.index,
        leader: it.leader,
        leader_epoch: it.leader_epoch,
        replicas: it.replicas.clone(),
        in_sync: it.in_sync.clone(),
        offline: it.offline.clone(),
        earliest: earliest.get(&it.index).copied(),
        latest: latest.get(&it.index).copied(),
    };
    Ok(Described {
        name: topic.name.to_string(),
        id: topic.id.map(|id| id.to_string()),
        internal: topic.is_internal,
        partitions: topic.partitions.iter().map(partition).collect(),
        configs: configs
            .iter()
            .filter(|it| is_set(it))
            .map(Setting::from)
            .collect(),
    })
}

impl Described {
    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let id = self.id.as_deref().unwrap_or("none");
        writeln!(out, "topic {}  id {id}", self.name)?;
        for config in &self.configs {
            let value = config.value.as_deref().unwrap_or("(secret)");
            writeln!(out, "config {} = {value}", config.name)?;
        }
        output::list(out, Format::Table, &self.partitions)
    }
}

impl Alter {
    async fn run(&self) -> Result<Ending, Failure> {
        let set = self.configs.iter().map(|(name, value)| {
            let change = Change::Set(value.clone());
            (name.clone(), change)
        });
        let unset = self.unset.iter().map(|name| (name.clone(), Change::Delete));
        let changes: Vec<(String, Change)> = set.chain(unset).collect();
        if changes.is_empty() && self.partitions.is_none() {
            return Err(Failure::new(
                Ending::Usage,
                "nothing is to be changed",
                "Give --partitions, --config or --unset.",
            ));
        }
        let admin = Admin::new(&self.target)?;
        let (mut failures, mut total) = (Vec::new(), 0);
        for name in self.names.all() {
            total += 1;
            if let Err(error) = self.alter(&admin, name, &changes).await {
                failures.push(error.into());
            }
        }
        end(total, failures)
    }

    /// Configs first: they can be set back, partitions stay.
    async fn alter(
        &self,
        admin: &Admin,
        name: &str,
        changes: &[(String, Change)],
    ) -> Result<(), Error> {
        if !changes.is_empty() {
            let resource = Resource::Topic(name.to_owned());
            admin
                .alter_configs(&resource, changes, self.dry_run)
                .await?;
        }
        match self.partitions {
            Some(partitions) => admin.grow_topic(name, partitions, self.dry_run).await,
            None => Ok(()),
        }
    }
}

impl Delete {
    async fn run(&self) -> Result<Ending, Failure> {
        let admin = Admin::new(&self.target)?;
        let (mut failures, mut total) = (Vec::new(), 0);
        for name in self.names.all() {
            total += 1;
            match admin.delete_topic(name).await {
                Ok(()) => {}
                Err(error)
                    if self.if_exists
                        && error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {}
                Err(error) => failures.push(error.into()),
            }
        }
        end(total, failures)
    }
}
