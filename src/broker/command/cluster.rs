//! `corelog cluster`: who is in a cluster, and whether all is well with it. Knows nothing of topics
//! but which of their partitions are in need.

use std::io::Write;

use clap::{Args, Subcommand};
use client::Route;
use client::cluster::{Metadata, Partition};
use serde::Serialize;

use super::connect::{self, Target};
use super::exit::{Ending, Failure, written};
use super::output::{self, Format, Listed};

/// Partitions that a check names; it counts all.
const NAMED_MAX: usize = 5;

/// What to ask of a cluster.
#[derive(Clone, Debug, Subcommand)]
pub enum ClusterCommand {
    /// Say which brokers there are, and how much they hold.
    Info(Ask),
    /// Check that all brokers answer and all partitions have their leaders and replicas. Exits 6 if
    /// not.
    Health(Ask),
}

/// Which cluster, and how to print.
#[derive(Clone, Debug, Args)]
pub struct Ask {
    #[command(flatten)]
    target: Target,
    /// How to print.
    #[arg(short, long, short_alias = 'O', value_enum, default_value_t)]
    output: Format,
}

/// Does what was asked.
///
/// # Errors
/// When no broker answers.
pub fn run(command: &ClusterCommand) -> Result<Ending, Failure> {
    match command {
        ClusterCommand::Info(ask) => info(ask),
        ClusterCommand::Health(ask) => health(ask),
    }
}

#[derive(Serialize)]
struct Info {
    cluster_id: Option<String>,
    controller: Option<i32>,
    topics: usize,
    partitions: usize,
    brokers: Vec<BrokerInfo>,
}

#[derive(Serialize)]
struct BrokerInfo {
    id: i32,
    address: String,
    rack: Option<String>,
    controller: bool,
    /// Partitions that it leads.
    leads: usize,
    /// Partitions that it has a replica of.
    replicas: usize,
}

impl Listed for BrokerInfo {
    const COLUMNS: &'static [&'static str] = &[
        "BROKER",
        "ADDRESS",
        "RACK",
        "LEADS",
        "REPLICAS",
        "CONTROLLER",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.address.clone(),
            self.rack.clone().unwrap_or_default(),
            self.leads.to_string(),
            self.replicas.to_string(),
            if self.controller { "yes" } else { "" }.into(),
        ]
    }
}

fn partitions(metadata: &Metadata) -> impl Iterator<Item = (&str, &Partition)> {
    let topics = metadata.topics.values();
    topics.flat_map(|topic| topic.partitions.iter().map(|it| (&*topic.name, it)))
}

impl Info {
    fn of(metadata: &Metadata) -> Self {
        let count = |wanted: &dyn Fn(&Partition) -> bool| {
            partitions(metadata).filter(|(_, it)| wanted(it)).count()
        };
        let broker = |broker: &client::cluster::Broker| BrokerInfo {
            id: broker.id,
            address: broker.address.to_string(),
            rack: broker.rack.clone(),
            controller: metadata.controller == Some(broker.id),
            leads: count(&|it| it.leader == Some(broker.id)),
            replicas: count(&|it| it.replicas.contains(&broker.id)),
        };
        Self {
            cluster_id: metadata.cluster_id.clone(),
            controller: metadata.controller,
            topics: metadata.topics.len(),
            partitions: partitions(metadata).count(),
            brokers: metadata.brokers.values().map(broker).collect(),
        }
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let id = self.cluster_id.as_deref().unwrap_or("none");
        let (topics, partitions) = (self.topics, self.partitions);
        writeln!(
            out,
            "cluster {id}: {topics} topics, {partitions} partitions"
        )?;
        output::list(out, Format::Table, &self.brokers)
    }
}

fn info(ask: &Ask) -> Result<Ending, Failure> {
    let metadata = connect::run(async {
        let admin = connect::admin(&ask.target)?;
        admin.cluster().track_all(true);
        Ok(admin.cluster().refresh().await?)
    })?;
    let info = Info::of(&metadata);
    let mut out = std::io::stdout();
    written(match ask.output {
        Format::Table => info.print(&mut out),
        Format::Json => output::json(&mut out, &info),
        Format::Jsonl => output::json_line(&mut out, &info),
    })?;
    Ok(Ending::Done)
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    check: &'static str,
    passed: bool,
    found: String,
}

impl Listed for Check {
    const COLUMNS: &'static [&'static str] = &["CHECK", "", "FOUND"];

    fn cells(&self) -> Vec<String> {
        let passed = if self.passed { "ok" } else { "FAILED" };
        vec![self.check.into(), passed.into(), self.found.clone()]
    }
}

fn health(ask: &Ask) -> Result<Ending, Failure> {
    let checks = connect::run(async {
        let admin = connect::admin(&ask.target)?;
        let cluster = admin.cluster();
        cluster.track_all(true);
        let metadata = cluster.refresh().await?;
        let mut silent = Vec::new();
        for (node, broker) in &metadata.brokers {
            // A connection that is open has had its ApiVersions answered.
            if let Err(error) = cluster.connection(Route::Node(*node)).await {
                silent.push(format!("broker {node} at {}: {error}", broker.address));
            }
        }
        Ok(checks(&metadata, silent))
    })?;
    let mut out = std::io::stdout();
    written(output::list(&mut out, ask.output, &checks))?;
    match checks.iter().all(|check| check.passed) {
        true => Ok(Ending::Done),
        false => Ok(Ending::Check),
    }
}

fn checks(metadata: &Metadata, silent: Vec<String>) -> Vec<Check> {
    let total = partitions(metadata).count();
    let of_partitions = |check, unwell: &dyn Fn(&Partition) -> bool| {
        let mut names: Vec<String> = partitions(metadata)
            .filter(|(_, it)| unwell(it))
            .map(|(topic, it)| format!("{topic}-{}", it.index))
            .collect();
        names.sort();
        let found = match names.len() {
            0 => format!("all {total} partitions"),
            count => format!("{count} of {total} are not: {}", some_of(&names)),
        };
        Check {
            check,
            passed: names.is_empty(),
            found,
        }
    };
    let brokers = metadata.brokers.len();
    vec![
        Check {
            check: "brokers answer",
            passed: silent.is_empty(),
            found: match silent.is_empty() {
                true => format!("all {brokers} brokers"),
                false => silent.join("; "),
            },
        },
        Check {
            check: "there is a controller",
            passed: metadata.controller.is_some(),
            found: metadata
                .controller
                .map_or("none".into(), |node| format!("broker {node}")),
        },
        of_partitions("partitions have a leader", &|it| it.leader.is_none()),
        of_partitions("replicas are in sync", &|it| {
            it.in_sync.len() < it.replicas.len()
        }),
        of_partitions("replicas are online", &|it| !it.offline.is_empty()),
    ]
}

fn some_of(names: &[String]) -> String {
    let named = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>();
    let named = named.join(", ");
    match names.len() > NAMED_MAX {
        true => format!("{named}, ..."),
        false => named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use client::cluster::Topic;

    fn partition(index: i32, leader: Option<i32>, in_sync: &[i32]) -> Partition {
        Partition {
            index,
            leader,
            leader_epoch: 0,
            replicas: vec![1, 2],
            in_sync: in_sync.to_vec(),
            offline: Vec::new(),
        }
    }

    #[test]
    fn what_is_not_well_fails_its_own_check_and_is_named() {
        let mut metadata = Metadata::default();
        metadata.controller = Some(1);
        let topic = Topic {
            name: "t".into(),
            id: None,
            is_internal: false,
            partitions: vec![partition(0, Some(1), &[1, 2]), partition(1, None, &[2])],
            error: None,
        };
        metadata.topics.insert("t".into(), Arc::new(topic));
        let failed: Vec<(&str, String)> = checks(&metadata, Vec::new())
            .into_iter()
            .filter(|check| !check.passed)
            .map(|check| (check.check, check.found))
            .collect();
        let found = "1 of 2 are not: t-1".to_owned();
        let wanted = [
            ("partitions have a leader", found.clone()),
            ("replicas are in sync", found),
        ];
        assert_eq!(failed, wanted);
    }
}
