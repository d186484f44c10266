//! What a config's value may be. Knows nothing of which config it is.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A config's value is at most so many bytes: values are kept in memory on every broker.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;

/// The kind of a config's value, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A 32-bit number in these bounds.
    Int(i32, i32),
    /// A gzip level: -1 for the codec's own choice, or 1 to 9.
    GzipLevel,
    /// A 64-bit number in these bounds.
    Long(i64, i64),
    /// A fraction in these bounds.
    Double(f64, f64),
    /// One of these words; any text when there are none.
    Text(&'static [&'static str]),
    /// A list separated by commas, of these words; of anything when there are none.
    List(&'static [&'static str]),
    /// A list of `partition:broker`, or `*` for all.
    Replicas,
}

impl Kind {
    /// The number by which DescribeConfigs calls the kind.
    pub const fn code(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::Text(_) => 2,
            Self::Int(..) | Self::GzipLevel => 3,
            Self::Long(..) => 5,
            Self::Double(..) => 6,
            Self::List(_) | Self::Replicas => 7,
        }
    }

    /// The value as it is kept, or what is wrong with it.
    pub fn check(self, value: &str) -> Result<String, String> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("Longer than {VALUE_BYTES_MAX} bytes"));
        }
        match self {
            Self::Boolean => one_of(&value.to_ascii_lowercase(), &["true", "false"]),
            Self::Int(least, most) => bounded(value, i64::from(least), i64::from(most), "INT"),
            Self::GzipLevel => match bounded(value, -1, 9, "INT")?.as_str() {
                "0" => Err("Value must be between 1 and 9 or equal to -1".into()),
                level => Ok(level.into()),
            },
            Self::Long(least, most) => bounded(value, least, most, "LONG"),
            Self::Double(least, most) => {
                let number: f64 = value
                    .parse()
                    .map_err(|_| "Not a number of type DOUBLE".to_string())?;
                if number >= least && number <= most {
                    Ok(value.into())
                } else {
                    Err(format!("Value must be between {least} and {most}"))
                }
            }
            Self::Text(words) => one_of(value, words),
            Self::List(words) => {
                let items = items(value);
                if items.is_empty() && !words.is_empty() {
                    return Err(format!("at least one of {} is needed", words.join(", ")));
                }
                items
                    .iter()
                    .try_for_each(|item| one_of(item, words).map(drop))?;
                Ok(items.join(","))
            }
            Self::Replicas => {
                let items = items(value);
                if items == ["*"] || items.iter().all(|item| is_replica(item)) {
                    return Ok(items.join(","));
                }
                Err("Must be the literal '*' or a list of partition:broker".into())
            }
        }
    }

    /// Whether APPEND and SUBTRACT make sense.
    pub const fn is_list(self) -> bool {
        matches!(self, Self::List(_) | Self::Replicas)
    }
}

/// The items of a list as written.
pub(super) fn items(value: &str) -> Vec<&str> {
    value
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .collect()
}

fn is_replica(item: &str) -> bool {
    let number = |digits: &str| digits.parse::<u32>().is_ok();
    item.split_once(':')
        .is_some_and(|(partition, broker)| number(partition) && number(broker))
}

fn one_of(value: &str, words: &[&str]) -> Result<String, String> {
    if words.is_empty() || words.contains(&value) {
        Ok(value.into())
    } else {
        Err(format!("String must be one of: {}", words.join(", ")))
    }
}

fn bounded(value: &str, least: i64, most: i64, kind: &str) -> Result<String, String> {
    let number: i64 = value
        .parse()
        .map_err(|_| format!("Not a number of type {kind}"))?;
    if number < least {
        Err(format!("Value must be at least {least}"))
    } else if number > most {
        Err(format!("Value must be no more than {most}"))
    } else {
        Ok(number.to_string())
    }
}
