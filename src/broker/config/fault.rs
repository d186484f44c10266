//! Where a value came from and what is wrong with it, in words for whoever set it. Knows no setting.

use std::fmt;
use std::path::PathBuf;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the compiled-in `config/corelog.toml`, on this line.
    Default(usize),
    /// In a file, on this line, counted from 1.
    File(PathBuf, usize),
    /// By this environment variable.
    Environment(String),
    /// By this flag.
    Flag(&'static str),
}

/// One thing that is wrong with what was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it was set.
    pub origin: Origin,
    /// What is wrong.
    pub message: String,
    /// What was probably meant.
    pub nearest: Option<String>,
}

/// All that is wrong, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl Origin {
    /// Whether both are of one source, so that a second value contradicts the first.
    pub fn same_source(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Default(_), Self::Default(_)) => true,
            (Self::File(one, _), Self::File(other, _)) => one == other,
            (Self::Environment(_), Self::Environment(_)) => true,
            (Self::Flag(_), Self::Flag(_)) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(_) => write!(out, "default"),
            Self::File(path, line) => write!(out, "{}:{line}", path.display()),
            Self::Environment(variable) => write!(out, "environment {variable}"),
            Self::Flag(flag) => write!(out, "flag {flag}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.origin, self.message)?;
        match &self.nearest {
            Some(nearest) => write!(out, "; did you mean {nearest}?"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.0.iter().map(Fault::to_string).collect();
        write!(out, "{}", faults.join("\n"))
    }
}

impl std::error::Error for Faults {}

/// The candidate that differs least from what was written, if it is near enough to be meant. Case
/// makes no difference, nor does which of dots, dashes and underscores is used.
pub fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['.', '-'], "_");
    let written = plain(written);
    let far = (written.chars().count() / 3).max(2);
    candidates
        .map(|candidate| {
            let candidate_plain = plain(candidate);
            let distance = strsim::osa_distance(&written, &candidate_plain);
            // A name that was cut short is near its whole.
            let cut = written.len() >= 3 && candidate_plain.starts_with(&written);
            (if cut { distance.min(2) } else { distance }, candidate)
        })
        .filter(|(distance, _)| *distance <= far)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
