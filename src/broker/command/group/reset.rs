//! `corelog group reset`: where a group shall go on. First says so, then does it if told to. Knows
//! nothing of how brokers are asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use client::Error;
use client::admin::{Admin, OffsetSpec};
use client::consumer::{OffsetAndMetadata, TopicPartition};
use serde::Serialize;
use wire::ErrorCode;

use super::super::connect::{self, Target};
use super::super::exit::{Ending, Failure, written};
use super::super::moment;
use super::super::output::{self, Format, Listed};
use super::first_failure;

/// Set what a group has committed. Says what it would do; does it with --execute.
///
/// The group must have no members then: they would go on where they are, and commit over it.
#[derive(Clone, Debug, Args)]
pub struct Reset {
    #[command(flatten)]
    target: Target,
    /// The group.
    #[arg(value_name = "GROUP")]
    group: String,
    /// A topic, all of it or some partitions, as TOPIC or TOPIC:0,1,2. Repeatable.
    #[arg(short, long = "topic", value_name = "TOPIC[:P,...]", value_parser = scope)]
    topics: Vec<Scope>,
    /// All topics of which the group has committed something.
    #[arg(long, conflicts_with = "topics")]
    all_topics: bool,
    #[command(flatten)]
    to: To,
    /// Do it.
    #[arg(long)]
    execute: bool,
    /// How to print.
    #[arg(short, long, short_alias = 'O', value_enum, default_value_t)]
    output: Format,
}

/// Where to.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
struct To {
    /// The first record.
    #[arg(long)]
    to_earliest: bool,
    /// Behind the last record.
    #[arg(long)]
    to_latest: bool,
    /// What is committed, or behind the last record where nothing is.
    #[arg(long)]
    to_current: bool,
    /// This offset, or the nearest that there is.
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    to_offset: Option<i64>,
    /// The first record that is not older: milliseconds since 1970 or a time such as
    /// 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    to_datetime: Option<i64>,
    /// The first record of so long ago, as 90s, 30m, 12h or 7d.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    by_duration: Option<Duration>,
    /// So many records on, or back.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    shift_by: Option<i64>,
    /// Lines of topic,partition,offset.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["topics", "all_topics"])]
    from_file: Option<PathBuf>,
}

/// A topic, and which of its partitions; all if none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scope {
    topic: String,
    partitions: Vec<i32>,
}

fn scope(text: &str) -> Result<Scope, String> {
    let Some((topic, partitions)) = text.split_once(':') else {
        return Ok(Scope {
            topic: text.to_owned(),
            partitions: Vec::new(),
        });
    };
    let number = |it: &str| it.parse::<u16>().map(i32::from);
    let partitions: Result<Vec<i32>, _> = partitions.split(',').map(number).collect();
    let partitions = partitions.map_err(|_| format!("expected TOPIC:0,1,2, got \"{text}\""))?;
    Ok(Scope {
        topic: topic.to_owned(),
        partitions,
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a duration such as 90s, 30m, 12h or 7d, got \"{text}\"");
    let unit = text.chars().last().ok_or_else(expected)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(expected()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| expected())?;
    let seconds = count.checked_mul(seconds).ok_or_else(expected)?;
    Ok(Duration::from_secs(seconds))
}

/// Reads lines of topic,partition,offset, as Kafka's tool writes them.
fn read_file(path: &Path) -> Result<BTreeMap<TopicPartition, i64>, Failure> {
    let usage = |what: String| {
        let advice = "Write one line of topic,partition,offset for each partition.";
        Failure::new(Ending::Usage, what, advice)
    };
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| usage(format!("{name}: {error}")))?;
    parse_lines(&text).map_err(|what| usage(format!("{name}: {what}")))
}

fn parse_lines(text: &str) -> Result<BTreeMap<TopicPartition, i64>, String> {
    let mut wanted = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let mut fields = line.split(',').map(|it| it.trim().trim_matches('"'));
        let mut next = || fields.next().unwrap_or_default();
        let (topic, partition, offset) = (next(), next().parse::<i32>(), next().parse::<i64>());
        match (partition, offset, fields.next()) {
            (Ok(partition), Ok(offset), None) if !topic.is_empty() && offset >= 0 => {
                wanted.insert(TopicPartition::new(topic, partition), offset);
            }
            _ => {
                return Err(format!(
                    "line {number} is not topic,partition,offset: \"{line}\""
                ));
            }
        }
    }
    Ok(wanted)
}

/// What becomes of one partition.
#[derive(Debug, Serialize)]
struct Moved {
    topic: String,
    partition: i32,
    before: Option<i64>,
    after: i64,
}

impl Listed for Moved {
    const COLUMNS: &'static [&'static str] = &["TOPIC", "PARTITION", "BEFORE", "AFTER"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.topic.clone(),
            self.partition.to_string(),
            self.before.map_or("-".into(), |it| it.to_string()),
            self.after.to_string(),
        ]
    }
}

impl Reset {
    /// Says what becomes of each partition, and does it if asked to.
    ///
    /// # Errors
    /// When the group has members, a partition does not exist, or a broker does not answer.
    pub async fn run(&self) -> Result<Ending, Failure> {
        let admin = connect::admin(&self.target)?;
        let before = admin.group_offsets(&self.group).await?;
        let after = self.after(&admin, &before).await?;
        if self.execute {
            self.refuse_members(&admin).await?;
            first_failure(admin.alter_group_offsets(&self.group, &after).await?)?;
        }
        let row = |(at, after): (&TopicPartition, &i64)| Moved {
            topic: at.topic.to_string(),
            partition: at.partition,
            before: before.get(at).map(|it| it.offset),
            after: *after,
        };
        let rows: Vec<Moved> = after.iter().map(row).collect();
        written(output::list(&mut std::io::stdout(), self.output, &rows))?;
        if !self.execute {
            output::complain(&"nothing is changed yet: run the same with --execute");
        }
        Ok(Ending::Done)
    }

    /// A clear word before the broker's `UNKNOWN_MEMBER_ID`.
    async fn refuse_members(&self, admin: &Admin) -> Result<(), Failure> {
        let group = match admin.describe_group(&self.group).await {
            Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => return Ok(()),
            described => described?,
        };
        match group.members.len() {
            0 => Ok(()),
            count => Err(Failure::new(
                Ending::NotFoundOrConflict,
                format!("group {} has {count} members", self.group),
                "Stop its consumers first: they would commit over it.",
            )),
        }
    }

    async fn after(
        &self,
        admin: &Admin,
        before: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Result<BTreeMap<TopicPartition, i64>, Failure> {
        if let Some(path) = &self.to.from_file {
            let wanted = read_file(path)?;
            let ranges = Ranges::of(admin, wanted.keys().cloned().collect()).await?;
            return Ok(wanted
                .into_iter()
                .map(|(at, offset)| (at.clone(), ranges.nearest(&at, offset)))
                .collect());
        }
        let scope = self.scope(admin, before).await?;
        let ranges = Ranges::of(admin, scope.clone()).await?;
        let since = match (self.to.to_datetime, self.to.by_duration) {
            (Some(time), _) => Some(time),
            (None, Some(ago)) => {
                Some(now_ms() - i64::try_from(ago.as_millis()).unwrap_or(i64::MAX))
            }
            (None, None) => None,
        };
        let found = match since {
            Some(time) => offsets(admin, &scope, OffsetSpec::Timestamp(time.max(0))).await?,
            None => BTreeMap::new(),
        };
        let place = |at: &TopicPartition| {
            let committed = before.get(at).map(|it| it.offset);
            let wanted = if self.to.to_earliest {
                ranges.earliest[at]
            } else if let Some(offset) = self.to.to_offset {
                offset
            } else if let Some(shift) = self.to.shift_by {
                committed.unwrap_or(ranges.latest[at]).saturating_add(shift)
            } else if self.to.to_current {
                committed.unwrap_or(ranges.latest[at])
            } else {
                // No record is as new: the next one will be.
                found
                    .get(at)
                    .copied()
                    .filter(|it| *it >= 0)
                    .unwrap_or(ranges.latest[at])
            };
            (at.clone(), ranges.nearest(at, wanted))
        };
        Ok(scope.iter().map(place).collect())
    }

    /// The partitions concerned.
    async fn scope(
        &self,
        admin: &Admin,
        before: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Result<BTreeSet<TopicPartition>, Failure> {
        let nothing = |what: String, advice: &str| {
            Err(Failure::new(Ending::NotFoundOrConflict, what, advice))
        };
        if self.all_topics {
            let scope: BTreeSet<_> = before.keys().cloned().collect();
            return match scope.is_empty() {
                true => nothing(
                    format!("group {} has committed nothing", self.group),
                    "Name topics with --topic.",
                ),
                false => Ok(scope),
            };
        }
        if self.topics.is_empty() {
            let advice = "Name some with --topic, or say --all-topics.";
            return Err(Failure::new(
                Ending::Usage,
                "of which topics?".to_owned(),
                advice,
            ));
        }
        let names: Vec<&str> = self.topics.iter().map(|it| it.topic.as_str()).collect();
        let mut scope = BTreeSet::new();
        for (wanted, topic) in self.topics.iter().zip(admin.describe_topics(&names).await?) {
            let topic = topic.result?;
            let there: BTreeSet<i32> = topic.partitions.iter().map(|it| it.index).collect();
            if let Some(missing) = wanted.partitions.iter().find(|it| !there.contains(it)) {
                let what = format!("topic {} has no partition {missing}", wanted.topic);
                return nothing(what, "Ask which it has with `corelog topic describe`.");
            }
            let partitions = match wanted.partitions.is_empty() {
                true => there,
                false => wanted.partitions.iter().copied().collect(),
            };
            let at = |partition| TopicPartition::new(wanted.topic.as_str(), partition);
            scope.extend(partitions.into_iter().map(at));
        }
        Ok(scope)
    }
}

/// The first offsets of partitions, and those behind the last records.
struct Ranges {
    earliest: BTreeMap<TopicPartition, i64>,
    latest: BTreeMap<TopicPartition, i64>,
}

impl Ranges {
    async fn of(admin: &Admin, scope: BTreeSet<TopicPartition>) -> Result<Self, Error> {
        Ok(Self {
            earliest: offsets(admin, &scope, OffsetSpec::Earliest).await?,
            latest: offsets(admin, &scope, OffsetSpec::Latest).await?,
        })
    }

    /// The nearest offset at which the partition can be read.
    fn nearest(&self, at: &TopicPartition, offset: i64) -> i64 {
        offset.min(self.latest[at]).max(self.earliest[at])
    }
}

/// An offset of each partition.
async fn offsets(
    admin: &Admin,
    scope: &BTreeSet<TopicPartition>,
    spec: OffsetSpec,
) -> Result<BTreeMap<TopicPartition, i64>, Error> {
    let wanted = scope.iter();
    let wanted = wanted.map(|at| ((at.topic.to_string(), at.partition), spec));
    let mut offsets = BTreeMap::new();
    for found in admin.list_offsets(wanted.collect()).await? {
        let (topic, partition) = found.key;
        let at = TopicPartition::new(topic, partition);
        offsets.insert(at, found.result?.offset);
    }
    Ok(offsets)
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_stands_for_all_or_for_some_of_its_partitions() {
        let of = |topic: &str, partitions: &[i32]| Scope {
            topic: topic.to_owned(),
            partitions: partitions.to_vec(),
        };
        assert_eq!(scope("t"), Ok(of("t", &[])));
        assert_eq!(scope("t:0,12"), Ok(of("t", &[0, 12])));
        assert!(scope("t:").is_err() && scope("t:0,x").is_err() && scope("t:-1").is_err());
    }

    #[test]
    fn a_duration_has_a_number_and_a_unit() {
        let seconds = |text| duration(text).map(|it| it.as_secs()).ok();
        let read = ["90s", "30m", "12h", "7d"].map(seconds);
        assert_eq!(read, [Some(90), Some(1_800), Some(43_200), Some(604_800)]);
        for wrong in [
            "",
            "7",
            "d",
            "-1d",
            "1w",
            "1.5h",
            "99999999999999999999d",
            "5µ",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lines_of_a_file_are_read_and_the_wrong_one_is_named() {
        let wanted = parse_lines("\"a\",0,7\n\nb, 1 ,0\n").expect("right");
        let at = TopicPartition::new;
        assert_eq!(wanted, BTreeMap::from([(at("a", 0), 7), (at("b", 1), 0)]));
        for wrong in ["a,0", "a,0,-1", "a,x,1", ",0,1", "a,0,1,2"] {
            let said = parse_lines(&format!("a,0,1\n{wrong}\n")).expect_err(wrong);
            assert!(said.starts_with("line 2 "), "{said}");
        }
    }
}
