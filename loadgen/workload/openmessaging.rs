//! Reads workload files of the OpenMessaging benchmark as settings. They are flat YAML: `field: value`
//! lines and comments; nothing else is read. Knows their fields, and nothing of what ours mean.

use super::fault::{Fault, Origin, nearest};
use super::layers::Entry;

/// Keys with their values.
type Settings = Vec<(&'static str, String)>;

/// What a field becomes.
enum Becomes {
    /// The setting of this key, with its text as it is.
    Same(&'static str),
    /// Settings made from its text.
    Settings(fn(&str) -> Result<Settings, String>),
    /// Nothing: it has no meaning here, or only that of our default.
    Nothing,
}

/// How many keys stand for OpenMessaging's key distributors, which has 10,000 keys in its own.
const KEYS: &str = "uniform(10000)";

const FIELDS: &[(&str, Becomes)] = &[
    ("name", Becomes::Same("description")),
    ("topics", Becomes::Same("topics")),
    ("partitionsPerTopic", Becomes::Same("partitions")),
    ("messageSize", Becomes::Same("payload-size")),
    ("producersPerTopic", Becomes::Same("producers")),
    ("subscriptionsPerTopic", Becomes::Same("groups")),
    ("consumerPerSubscription", Becomes::Same("consumers")),
    ("keyDistributor", Becomes::Settings(keys)),
    ("producerRate", Becomes::Settings(rate)),
    (
        "testDurationMinutes",
        Becomes::Settings(|text| minutes("duration", text)),
    ),
    (
        "warmupDurationMinutes",
        Becomes::Settings(|text| minutes("warm-up", text)),
    ),
    ("consumerBacklogSizeGB", Becomes::Settings(backlog)),
    ("randomBytesRatio", Becomes::Settings(compressibility)),
    ("useRandomizedPayloads", Becomes::Nothing),
    ("randomizedPayloadPoolSize", Becomes::Nothing),
    ("payloadFile", Becomes::Nothing),
    ("backlogDrainRatio", Becomes::Nothing),
];

/// The settings of such a file; what cannot be read becomes a fault.
pub fn items(text: &str, origin: &dyn Fn(usize) -> Origin, faults: &mut Vec<Fault>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split(" #").next().unwrap_or_default();
        if line.trim().is_empty() || line.starts_with('#') || line.trim() == "---" {
            continue;
        }
        match settings(line) {
            Ok(settings) => entries.extend(settings.into_iter().map(|(key, value)| Entry {
                key: key.to_owned(),
                value,
                origin: origin(number),
            })),
            Err((message, nearest)) => faults.push(Fault {
                origin: origin(number),
                message,
                nearest,
            }),
        }
    }
    entries
}

fn settings(line: &str) -> Result<Settings, (String, Option<String>)> {
    let flat = line
        .split_once(':')
        .filter(|_| !line.starts_with([' ', '\t', '-']));
    let Some((field, value)) = flat else {
        let message = format!("{:?} is not `field: value`", line.trim());
        return Err((message, None));
    };
    let (field, value) = (field.trim(), value.trim().trim_matches(['"', '\'']));
    let Some((_, becomes)) = FIELDS.iter().find(|(name, _)| *name == field) else {
        let near = nearest(field, FIELDS.iter().map(|(name, _)| *name));
        let message = format!("OpenMessaging workloads have no field `{field}`");
        return Err((message, near.map(str::to_owned)));
    };
    match becomes {
        Becomes::Nothing => Ok(Vec::new()),
        _ if value.is_empty() || value == "null" => Ok(Vec::new()),
        Becomes::Same(key) => Ok(vec![(key, value.to_owned())]),
        Becomes::Settings(read) => {
            read(value).map_err(|problem| (format!("{field}: {problem}"), None))
        }
    }
}

fn keys(text: &str) -> Result<Settings, String> {
    match text {
        "NO_KEY" => Ok(vec![("keys", "none".to_owned())]),
        "KEY_ROUND_ROBIN" | "RANDOM_NANO" => Ok(vec![("keys", KEYS.to_owned())]),
        _ => Err(format!(
            "must be NO_KEY, KEY_ROUND_ROBIN or RANDOM_NANO, not {text:?}"
        )),
    }
}

/// A rate of 0 asks for the highest rate that holds; that is what `search` is for, and here a closed
/// loop.
fn rate(text: &str) -> Result<Settings, String> {
    let rate = if text == "0" { "max" } else { text };
    Ok(vec![("rate", rate.to_owned())])
}

fn minutes(key: &'static str, text: &str) -> Result<Settings, String> {
    Ok(vec![(key, format!("{text}m"))])
}

fn backlog(text: &str) -> Result<Settings, String> {
    Ok(vec![("backlog", format!("{text}GiB"))])
}

fn compressibility(text: &str) -> Result<Settings, String> {
    let random = super::quantity::share(text)?;
    Ok(vec![("compressibility", (1.0 - random).to_string())])
}
