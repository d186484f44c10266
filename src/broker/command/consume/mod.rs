//! `corelog consume`: prints records of a topic, from where to where, and how. Knows nothing of
//! fetching: that is the client's.

mod assigned;
mod group;

mod bounds;
mod ranges;

mod format;
mod print;

use clap::Args;
use client::ConsumerConfig;

use self::bounds::{Bound, Bounds, Start};
use self::format::Format as Pattern;
use super::connect::{self, Target};
use super::exit::{Ending, Failure};
use super::lines::unescape;
use super::output::Format;

/// Print records of a topic.
///
/// Without -o, those that come from now on.
#[derive(Clone, Debug, Args)]
pub struct Consume {
    #[command(flatten)]
    target: Target,
    /// The topic.
    #[arg(short, long, value_name = "TOPIC")]
    topic: String,
    /// A partition; by default all. Repeatable.
    #[arg(short, long = "partition", value_name = "N")]
    partitions: Vec<i32>,
    /// Read as a member of this group: it shares partitions with the other members, begins where the
    /// group has committed, and commits what was printed.
    #[arg(short = 'G', long, value_name = "GROUP", conflicts_with_all = ["partitions", "to"])]
    group: Option<String>,
    /// Where to begin: beginning, end, an offset N, -N for N before the end, or s@TIME; and e@TIME
    /// to end there. TIME is milliseconds since 1970, or 2026-01-31T12:00:00Z. With a group: stored,
    /// and beginning or end for partitions of which nothing is stored.
    #[arg(
        short,
        long = "offset",
        value_name = "OFFSET",
        value_parser = bounds::parse,
        allow_hyphen_values = true
    )]
    offsets: Vec<Bound>,
    /// End before this offset in every partition.
    #[arg(long, value_name = "OFFSET")]
    to: Option<i64>,
    /// End after so many records.
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// End where partitions ended when this began.
    #[arg(short, long)]
    exit: bool,
    /// What to print of a record, as in kcat: %s value, %S its length, %k key, %K its length, %t
    /// topic, %p partition, %o offset, %T time in ms, %h headers, %R length as four bytes.
    #[arg(short, long, value_name = "FORMAT", value_parser = Pattern::parse)]
    format: Option<Pattern>,
    /// Print keys too, and this behind them.
    #[arg(short = 'K', long, value_name = "TEXT", conflicts_with = "format", value_parser = separator)]
    key_separator: Option<Separator>,
    /// What ends a record.
    #[arg(
        short = 'D',
        long,
        value_name = "TEXT",
        default_value = "\\n",
        conflicts_with = "format",
        value_parser = separator
    )]
    delimiter: Separator,
    /// What to print in place of null.
    #[arg(short = 'Z', long, value_name = "TEXT", default_value = "")]
    null: String,
    /// How to print, in place of --format. (-o is where to begin, as in kcat.)
    #[arg(
        short = 'O',
        long,
        value_enum,
        value_name = "FORMAT",
        conflicts_with = "format"
    )]
    output: Option<Format>,
    /// The same as --output jsonl.
    #[arg(short = 'J', long, conflicts_with_all = ["format", "output"])]
    json: bool,
}

/// Bytes between things.
#[derive(Clone, Debug)]
struct Separator(Vec<u8>);

fn separator(text: &str) -> Result<Separator, String> {
    unescape(text).map(Separator)
}

/// Prints the records.
///
/// # Errors
/// When the topic, a partition or an offset is not there, or no broker answers.
pub fn run(consume: &Consume) -> Result<Ending, Failure> {
    let wrong = |what| {
        Failure::new(
            Ending::Usage,
            what,
            "Give one start, and at most one e@TIME.",
        )
    };
    let bounds = Bounds::new(&consume.offsets, consume.to, consume.exit).map_err(wrong)?;
    let reset = match (&consume.group, bounds.start, bounds.until) {
        (None, Some(Start::Stored), _) => {
            let what = "only a group has stored offsets";
            return Err(Failure::new(Ending::Usage, what, "Name it with -G."));
        }
        (None, ..) | (Some(_), None | Some(Start::Stored), None) => None,
        (Some(_), Some(Start::Beginning), None) => Some("earliest".to_owned()),
        (Some(_), Some(Start::End), None) => Some("latest".to_owned()),
        (Some(_), ..) => {
            let what = "a group begins where it has stored that it was";
            let advice = "Give -o stored, beginning or end with -G, or read without a group.";
            return Err(Failure::new(Ending::Usage, what, advice));
        }
    };
    let properties = consume.target.properties(&[
        (
            "default.api.timeout.ms",
            Some(connect::PATIENCE_MS.to_owned()),
        ),
        // What was printed is committed, not what was fetched.
        ("enable.auto.commit", Some("false".to_owned())),
        ("group.id", consume.group.clone()),
        ("auto.offset.reset", reset),
    ]);
    let config = ConsumerConfig::from_properties(&properties)?;
    connect::run(async {
        match consume.group {
            Some(_) => group::Member::join(consume, config)?.run().await,
            None => {
                let ranges = ranges::ask(consume, &bounds, &config).await?;
                assigned::Reader::new(consume, config, ranges)?.run().await
            }
        }
    })
}
