//! What a config's value may be. Knows nothing of which config it is.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The kind of a config's value, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A 32-bit number in these bounds.
    Int(i32, i32),
    /// A 64-bit number in these bounds.
    Long(i64, i64),
    /// A fraction in these bounds.
    Double(f64, f64),
    /// One of these words; any text when there are none.
    Text(&'static [&'static str]),
    /// A list separated by commas, of these words; of anything when there are none.
    List(&'static [&'static str]),
}

impl Kind {
    /// The number by which DescribeConfigs calls the kind.
    pub const fn code(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::Text(_) => 2,
            Self::Int(..) => 3,
            Self::Long(..) => 5,
            Self::Double(..) => 6,
            Self::List(_) => 7,
        }
    }

    /// The value as it is kept, or what is wrong with it.
    pub fn check(self, value: &str) -> Result<String, String> {
        match self {
            Self::Boolean => one_of(&value.to_ascii_lowercase(), &["true", "false"]),
            Self::Int(least, most) => bounded(value, i64::from(least), i64::from(most), "INT"),
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
                let items: Vec<&str> = value
                    .split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .collect();
                if items.is_empty() && !words.is_empty() {
                    return Err(format!("at least one of {} is needed", words.join(", ")));
                }
                for item in &items {
                    one_of(item, words)?;
                }
                Ok(items.join(","))
            }
        }
    }
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
