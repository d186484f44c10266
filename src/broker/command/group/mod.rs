//! `corelog group`: which groups there are, who is in them, how far they are, and changes of that. Knows
//! nothing of how coordinators are asked.

mod lag;
mod reset;

use clap::{Args, Subcommand};
use client::admin::{About, Admin, GroupDescription, GroupListing, GroupMember};
use client::consumer::TopicPartition;
use serde::Serialize;

use self::lag::Progress;
use super::connect::{self, Target};
use super::exit::{Ending, Failure, written};
use super::output::{self, Format, Listed, end_of};

/// What to do with groups.
#[derive(Clone, Debug, Subcommand)]
pub enum GroupCommand {
    /// List groups.
    List(List),
    /// Say how a group is: its state, its coordinator, its assignor, and how far behind it is.
    Describe(One),
    /// Say who is in a group, and what each member is given.
    Members(One),
    /// Say how far a group is behind, partition by partition.
    Lag(One),
    /// Set what a group has committed. Says what it would do; does it with --execute.
    Reset(Box<reset::Reset>),
    /// Delete groups that have no members, or what they have committed of a topic.
    Delete(Delete),
}

/// List groups.
#[derive(Clone, Debug, Args)]
pub struct List {
    #[command(flatten)]
    target: Target,
    /// How to print.
    #[arg(short, long, short_alias = 'O', value_enum, default_value_t)]
    output: Format,
}

/// One group.
#[derive(Clone, Debug, Args)]
pub struct One {
    #[command(flatten)]
    target: Target,
    /// The group.
    #[arg(value_name = "GROUP")]
    group: String,
    /// How to print.
    #[arg(short, long, short_alias = 'O', value_enum, default_value_t)]
    output: Format,
}

/// Delete groups that have no members, or what they have committed of a topic.
#[derive(Clone, Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    target: Target,
    /// Groups.
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
    /// Only what they have committed of this topic; the group stays. Repeatable.
    #[arg(short, long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
}

/// Does what was asked.
///
/// # Errors
/// When nothing of it could be done.
pub fn run(command: &GroupCommand) -> Result<Ending, Failure> {
    connect::run(async {
        match command {
            GroupCommand::List(it) => it.run().await,
            GroupCommand::Describe(it) => it.describe().await,
            GroupCommand::Members(it) => it.members().await,
            GroupCommand::Lag(it) => it.lag().await,
            GroupCommand::Reset(it) => it.run().await,
            GroupCommand::Delete(it) => it.run().await,
        }
    })
}

/// A group in a list.
#[derive(Serialize)]
struct Listing {
    group: String,
    r#type: String,
    state: String,
    protocol_type: String,
}

impl Listed for Listing {
    const COLUMNS: &'static [&'static str] = &["GROUP", "TYPE", "STATE", "PROTOCOL"];

    fn cells(&self) -> Vec<String> {
        let cells = [&self.group, &self.r#type, &self.state, &self.protocol_type];
        cells.into_iter().cloned().collect()
    }
}

impl From<GroupListing> for Listing {
    fn from(group: GroupListing) -> Self {
        Self {
            group: group.id,
            r#type: group.group_type,
            state: group.state,
            protocol_type: group.protocol_type,
        }
    }
}

impl List {
    async fn run(&self) -> Result<Ending, Failure> {
        let admin = connect::admin(&self.target)?;
        let groups = admin.list_groups().await?;
        let rows: Vec<Listing> = groups.into_iter().map(Listing::from).collect();
        written(output::list(&mut std::io::stdout(), self.output, &rows))?;
        Ok(Ending::Done)
    }
}

/// A group as a whole.
#[derive(Serialize)]
struct Described {
    group: String,
    r#type: &'static str,
    state: String,
    coordinator: i32,
    assignor: String,
    members: usize,
    /// Partitions of which it has committed an offset.
    partitions: usize,
    /// Records behind the ends of these, as far as they are known.
    lag: i64,
}

impl Listed for Described {
    const COLUMNS: &'static [&'static str] = &[
        "GROUP",
        "TYPE",
        "STATE",
        "COORDINATOR",
        "ASSIGNOR",
        "MEMBERS",
        "PARTITIONS",
        "LAG",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.group.clone(),
            self.r#type.to_owned(),
            self.state.clone(),
            self.coordinator.to_string(),
            self.assignor.clone(),
            self.members.to_string(),
            self.partitions.to_string(),
            self.lag.to_string(),
        ]
    }
}

/// A member of a group.
#[derive(Serialize)]
struct Member {
    member: String,
    instance: Option<String>,
    client: String,
    host: String,
    /// `topic-partition`; none when the member is no consumer.
    assigned: Option<Vec<String>>,
}

impl Listed for Member {
    const COLUMNS: &'static [&'static str] = &["MEMBER", "INSTANCE", "CLIENT", "HOST", "ASSIGNED"];

    fn cells(&self) -> Vec<String> {
        let assigned = self.assigned.as_ref();
        vec![
            self.member.clone(),
            self.instance.clone().unwrap_or_default(),
            self.client.clone(),
            self.host.clone(),
            assigned.map_or("?".into(), |assigned| assigned.join(",")),
        ]
    }
}

impl From<GroupMember> for Member {
    fn from(member: GroupMember) -> Self {
        let name = |at: &TopicPartition| format!("{}-{}", at.topic, at.partition);
        Self {
            member: member.id,
            instance: member.instance_id,
            client: member.client_id,
            host: member.host,
            assigned: member.assigned.map(|all| all.iter().map(name).collect()),
        }
    }
}

impl One {
    async fn described(&self) -> Result<(Admin, GroupDescription), Failure> {
        let admin = connect::admin(&self.target)?;
        let group = admin.describe_group(&self.group).await?;
        Ok((admin, group))
    }

    async fn describe(&self) -> Result<Ending, Failure> {
        let (admin, group) = self.described().await?;
        let progress = lag::progress(&admin, &group).await?;
        let lags = progress.iter().filter_map(|it| it.lag);
        let row = Described {
            group: group.id,
            r#type: group.group_type,
            state: group.state,
            coordinator: group.coordinator,
            assignor: group.assignor,
            members: group.members.len(),
            partitions: progress.iter().filter(|it| it.committed.is_some()).count(),
            lag: lags.sum(),
        };
        self.print(&[row])
    }

    async fn members(&self) -> Result<Ending, Failure> {
        let (_, group) = self.described().await?;
        let rows: Vec<Member> = group.members.into_iter().map(Member::from).collect();
        self.print(&rows)
    }

    async fn lag(&self) -> Result<Ending, Failure> {
        let (admin, group) = self.described().await?;
        let rows: Vec<Progress> = lag::progress(&admin, &group).await?;
        self.print(&rows)
    }

    fn print<T: Listed>(&self, rows: &[T]) -> Result<Ending, Failure> {
        written(output::list(&mut std::io::stdout(), self.output, rows))?;
        Ok(Ending::Done)
    }
}

impl Delete {
    async fn run(&self) -> Result<Ending, Failure> {
        let admin = connect::admin(&self.target)?;
        let mut failures = Vec::new();
        for group in &self.groups {
            let deleted = match self.topics.is_empty() {
                true => admin.delete_group(group).await.map_err(Failure::from),
                false => self.delete_offsets(&admin, group).await,
            };
            failures.extend(deleted.err());
        }
        end_of(self.groups.len(), &failures)
    }

    async fn delete_offsets(&self, admin: &Admin, group: &str) -> Result<(), Failure> {
        let committed = admin.group_offsets(group).await?;
        let wanted = |at: &&TopicPartition| self.topics.iter().any(|topic| *topic == *at.topic);
        let partitions: Vec<TopicPartition> = committed.keys().filter(wanted).cloned().collect();
        if partitions.is_empty() {
            let what = format!("group {group} has committed nothing of these topics");
            let advice = "Ask what it has with `corelog group lag`.";
            return Err(Failure::new(Ending::NotFoundOrConflict, what, advice));
        }
        let about = admin.delete_group_offsets(group, &partitions).await?;
        first_failure(about)
    }
}

/// The first thing that went wrong, if any did.
fn first_failure(about: Vec<About<TopicPartition, ()>>) -> Result<(), Failure> {
    for it in about {
        it.result?;
    }
    Ok(())
}
