//! `corelog topic`: make, list, look at, change and delete topics. Knows nothing of how brokers are
//! asked.

use std::io::Write;

use clap::{Args, Subcommand};
use client::admin::{About, Admin, ConfigResource, NewTopic, OffsetSpec};
use client::cluster::{Partition, Topic};
use client::{Error, code_name};
use serde::Serialize;
use wire::ErrorCode;

use super::config::{Setting, is_set};
use super::connect::{self, Target, key_value};
use super::exit::{Ending, Failure, written};
use super::output::{self, Format, Listed, end_of};

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
    fn all(&self) -> Vec<&str> {
        let names = self.names.iter().chain(&self.topics);
        names.map(String::as_str).collect()
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
fn end<K>(about: Vec<About<K, ()>>) -> Result<Ending, Failure> {
    let total = about.len();
    let failures = about.into_iter().filter_map(|it| it.result.err());
    end_of(total, &failures.map(Failure::from).collect::<Vec<_>>())
}

/// Counts an error that is none to who asked for this as done.
fn forgive(about: &mut [About<String, ()>], code: ErrorCode) {
    for it in about {
        if it
            .result
            .as_ref()
            .is_err_and(|error| error.code() == Some(code))
        {
            it.result = Ok(());
        }
    }
}

impl Create {
    async fn run(&self) -> Result<Ending, Failure> {
        let admin = connect::admin(&self.target)?;
        let topic = |name: &str| NewTopic {
            replication_factor: self.replication_factor.unwrap_or(-1),
            configs: self.configs.clone(),
            ..NewTopic::new(name, self.partitions.unwrap_or(-1))
        };
        let topics = self.names.all().into_iter().map(topic).collect();
        let mut about = admin.create_topics(topics, self.dry_run).await?;
        if self.if_not_exists {
            forgive(&mut about, ErrorCode::TopicAlreadyExists);
        }
        if !self.dry_run {
            self.show(&admin, &about).await?;
        }
        end(about)
    }

    /// The topics as they are now: what was left to the broker is worth knowing.
    async fn show(&self, admin: &Admin, about: &[About<String, ()>]) -> Result<(), Failure> {
        let there = about.iter().filter(|it| it.result.is_ok());
        let there: Vec<&str> = there.map(|it| it.key.as_str()).collect();
        if there.is_empty() {
            return Ok(());
        }
        let described = admin.describe_topics(&there).await?;
        let topics = described.iter().filter_map(|it| it.result.as_ref().ok());
        let rows: Vec<Summary> = topics.map(|topic| Summary::of(topic)).collect();
        written(output::list(&mut std::io::stdout(), self.output, &rows))
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

impl Summary {
    fn of(topic: &Topic) -> Self {
        let replicas = topic.partitions.iter().map(|it| it.replicas.len());
        Self {
            name: topic.name.to_string(),
            id: topic.id.map(|id| id.to_string()),
            partitions: topic.partitions.len(),
            replication_factor: replicas.max().unwrap_or(0),
            internal: topic.is_internal,
            error: topic.error.map(code_name),
        }
    }
}

impl List {
    async fn run(&self) -> Result<Ending, Failure> {
        let admin = connect::admin(&self.target)?;
        admin.cluster().track_all(true);
        let metadata = admin.cluster().refresh().await?;
        let topics = metadata.topics.values();
        let wanted = topics.filter(|topic| self.internal || !topic.is_internal);
        let mut rows: Vec<Summary> = wanted.map(|topic| Summary::of(topic)).collect();
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
        let admin = connect::admin(&self.target)?;
        let mut topics = Vec::new();
        let mut about = Vec::new();
        for topic in admin.describe_topics(&self.names.all()).await? {
            let described = match topic.result {
                Ok(it) => describe(&admin, &it).await,
                Err(error) => Err(error),
            };
            about.push(About {
                key: topic.key,
                result: described.map(|it| topics.push(it)),
            });
        }
        let mut out = std::io::stdout().lock();
        written(match self.output {
            Format::Table => topics.iter().try_for_each(|it| it.print(&mut out)),
            Format::Json => output::json(&mut out, &topics),
            Format::Jsonl => topics
                .iter()
                .try_for_each(|it| output::json_line(&mut out, it)),
        })?;
        end(about)
    }
}

async fn describe(admin: &Admin, topic: &Topic) -> Result<Described, Error> {
    let earliest = offsets(admin, topic, OffsetSpec::Earliest).await?;
    let latest = offsets(admin, topic, OffsetSpec::Latest).await?;
    let resource = ConfigResource::topic(&topic.name);
    let mut configs = admin.describe_config(&resource).await?;
    configs.retain(is_set);
    configs.sort_by(|a, b| a.name.cmp(&b.name));
    let offsets = earliest.into_iter().zip(latest);
    let partition = |(it, (earliest, latest)): (&Partition, _)| DescribedPartition {
        partition: it.index,
        leader: it.leader,
        leader_epoch: it.leader_epoch,
        replicas: it.replicas.clone(),
        in_sync: it.in_sync.clone(),
        offline: it.offline.clone(),
        earliest,
        latest,
    };
    Ok(Described {
        name: topic.name.to_string(),
        id: topic.id.map(|id| id.to_string()),
        internal: topic.is_internal,
        partitions: topic
            .partitions
            .iter()
            .zip(offsets)
            .map(partition)
            .collect(),
        configs: configs.iter().map(Setting::from).collect(),
    })
}

/// By partition; none where nobody says.
async fn offsets(
    admin: &Admin,
    topic: &Topic,
    spec: OffsetSpec,
) -> Result<Vec<Option<i64>>, Error> {
    // A partition without a leader has nobody to ask, and would keep all others waiting.
    let led = topic.partitions.iter().filter(|it| it.leader.is_some());
    let wanted = led.map(|it| ((topic.name.to_string(), it.index), spec));
    let found = admin.list_offsets(wanted.collect()).await?;
    let of = |index: i32| {
        let found = found.iter().find(|it| it.key.1 == index)?;
        found.result.as_ref().ok().map(|it| it.offset)
    };
    Ok(topic.partitions.iter().map(|it| of(it.index)).collect())
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
        let set = self.configs.iter();
        let set = set.map(|(name, value)| (name.clone(), Some(value.clone())));
        let unset = self.unset.iter().map(|name| (name.clone(), None));
        let changes: Vec<(String, Option<String>)> = set.chain(unset).collect();
        if changes.is_empty() && self.partitions.is_none() {
            return Err(Failure::new(
                Ending::Usage,
                "nothing is to be changed",
                "Give --partitions, --config or --unset.",
            ));
        }
        let admin = connect::admin(&self.target)?;
        let mut about = Vec::new();
        for name in self.names.all() {
            let result = self.alter(&admin, name, &changes).await;
            about.push(About { key: name, result });
        }
        end(about)
    }

    /// Configs first: they can be set back, partitions stay.
    async fn alter(
        &self,
        admin: &Admin,
        name: &str,
        changes: &[(String, Option<String>)],
    ) -> Result<(), Error> {
        if !changes.is_empty() {
            let resource = ConfigResource::topic(name);
            let changes = changes.to_vec();
            admin.alter_config(&resource, changes, self.dry_run).await?;
        }
        match self.partitions {
            Some(count) => admin.create_partitions(name, count, self.dry_run).await,
            None => Ok(()),
        }
    }
}

impl Delete {
    async fn run(&self) -> Result<Ending, Failure> {
        let admin = connect::admin(&self.target)?;
        let mut about = admin.delete_topics(&self.names.all()).await?;
        if self.if_exists {
            forgive(&mut about, ErrorCode::UnknownTopicOrPartition);
        }
        end(about)
    }
}
