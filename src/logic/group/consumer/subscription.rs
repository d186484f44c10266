//! Subscriptions by regular expression: which topics one stands for. Knows nothing of members.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use regex::{Regex, RegexBuilder};

use super::topics::Topics;

/// Bytes that a compiled expression may take: more than any that is meant well.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Expressions, compiled once. One that cannot be, as a log of Kafka's may hold, matches nothing.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    compiled: BTreeMap<String, Option<Regex>>,
}

/// Compiles an expression that must match a topic's whole name. The syntax is RE2's, as in Kafka, but
/// for `\Q`, `\E` and `\C`.
///
/// # Errors
/// It is none; the text says why.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let build = |text: &str| {
        let mut builder = RegexBuilder::new(text);
        builder.size_limit(COMPILED_BYTES_MAX).build()
    };
    // By itself first: "a)|(b" is none, and would be one between brackets.
    build(pattern)
        .and_then(|_| build(&format!("\\A(?:{pattern})\\z")))
        .map_err(|error| error.to_string())
}

impl Patterns {
    /// The topics that an expression stands for, by name, in order.
    pub(super) fn resolve(&mut self, pattern: &str, topics: &Topics) -> Vec<String> {
        let compiled = self.compiled(pattern);
        let matching = |name: &&String| compiled.is_some_and(|it| it.is_match(name));
        topics.names().filter(matching).cloned().collect()
    }

    /// Whether one of these expressions matches a topic.
    pub(super) fn any_matches<'a>(
        &mut self,
        mut patterns: impl Iterator<Item = &'a String>,
        topic: &str,
    ) -> bool {
        patterns.any(|it| {
            self.compiled(it)
                .is_some_and(|compiled| compiled.is_match(topic))
        })
    }

    /// Forgets expressions that nobody uses.
    pub(super) fn retain(&mut self, used: impl Fn(&str) -> bool) {
        self.compiled.retain(|pattern, _| used(pattern));
    }

    fn compiled(&mut self, pattern: &str) -> Option<&Regex> {
        if !self.compiled.contains_key(pattern) {
            self.compiled.insert(pattern.into(), compile(pattern).ok());
        }
        self.compiled.get(pattern)?.as_ref()
    }
}
