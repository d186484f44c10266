//! What is wrong with a workload, where it was written, and what was probably meant. Knows no
//! setting.

use std::fmt;
use std::path::PathBuf;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: the default.
    Default,
    /// In a workload that is compiled in, on this line, counted from 1.
    Named(&'static str, usize),
    /// In a file, on this line, counted from 1.
    File(PathBuf, usize),
    /// By the flag of this key.
    Flag(String),
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it was written.
    pub origin: Origin,
    /// What is wrong.
    pub message: String,
    /// What was probably meant.
    pub nearest: Option<String>,
}

/// All that is wrong, at least one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(out, "default"),
            Self::Named(name, line) => write!(out, "workload {name}, line {line}"),
            Self::File(path, line) => write!(out, "{}:{line}", path.display()),
            Self::Flag(key) => write!(out, "flag --{key}"),
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

/// The candidate that differs least from what was written, if it is near enough to be meant. Case,
/// dots, dashes and underscores make no difference.
pub fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['.', '_'], "-");
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
