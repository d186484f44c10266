//! What kind of broker it is and what its acknowledgement means, in words, from its configs. Pure.

use crate::workload::{Acks, Configs};

/// The configs that say what an acknowledgement means, of topics.
const TOPIC_CONFIGS: &[&str] = &[
    "durability",
    "min.insync.replicas",
    "flush.messages",
    "flush.ms",
];

/// The configs of a topic that a reader of a result wants to see.
pub fn telling(topic: &Configs) -> Vec<(String, String)> {
    let told = TOPIC_CONFIGS.iter().filter_map(|name| {
        let value = topic.get(*name)?;
        Some(((*name).to_owned(), value.clone()))
    });
    told.collect()
}

/// What kind of broker it is, as far as its configs tell.
pub fn kind(topic: &Configs, broker: &Configs, cluster_id: &str) -> String {
    if topic.contains_key("durability") {
        "corelog".to_owned()
    } else if cluster_id.starts_with("redpanda")
        || broker.keys().any(|key| key.starts_with("redpanda"))
    {
        "Redpanda".to_owned()
    } else if broker.contains_key("log.flush.interval.messages") {
        "Apache Kafka, or what describes itself as it".to_owned()
    } else {
        "unknown".to_owned()
    }
}

/// What an acknowledgement means.
pub fn words(acks: Acks, topic: &Configs, replicas: usize) -> String {
    let who = match acks {
        Acks::None => return "nothing (acks=0)".to_owned(),
        Acks::Leader => "the leader (acks=1)".to_owned(),
        Acks::All if replicas == 1 => "the only replica (acks=all)".to_owned(),
        Acks::All => {
            let least = topic.get("min.insync.replicas").map_or("1", String::as_str);
            format!("all in-sync replicas, at least {least} of {replicas} (acks=all)")
        }
    };
    let how = match (topic.get("durability").map(String::as_str), acks) {
        (Some("flush"), Acks::All) => "written to disk and flushed by",
        (Some(_), _) => "written to disk, flushed later, by",
        (None, _) => match topic.get("flush.messages").map(String::as_str) {
            Some("1") => "written and flushed (flush.messages=1) by",
            Some(_) => "in the page cache, flushed later, of",
            None => "received (the broker does not tell its flushing) by",
        },
    };
    format!("{how} {who}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(pairs: &[(&str, &str)]) -> Configs {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn each_broker_is_said_to_promise_what_its_configs_promise() {
        let corelog = configs(&[
            ("durability", "flush"),
            ("flush.messages", "9223372036854775807"),
        ]);
        assert_eq!(
            words(Acks::All, &corelog, 1),
            "written to disk and flushed by the only replica (acks=all)"
        );
        assert_eq!(
            words(Acks::Leader, &corelog, 1),
            "written to disk, flushed later, by the leader (acks=1)"
        );
        let kafka = configs(&[
            ("flush.messages", "9223372036854775807"),
            ("min.insync.replicas", "2"),
        ]);
        assert_eq!(
            words(Acks::All, &kafka, 3),
            "in the page cache, flushed later, of all in-sync replicas, at least 2 of 3 (acks=all)"
        );
        let flushing = configs(&[("flush.messages", "1")]);
        assert!(words(Acks::All, &flushing, 1).contains("flushed (flush.messages=1)"));
        assert_eq!(words(Acks::None, &kafka, 3), "nothing (acks=0)");
    }

    #[test]
    fn a_broker_is_named_by_what_only_it_has() {
        assert_eq!(
            kind(&configs(&[("durability", "flush")]), &configs(&[]), "x"),
            "corelog"
        );
        let broker = configs(&[("log.flush.interval.messages", "1")]);
        assert!(kind(&configs(&[]), &broker, "x").starts_with("Apache Kafka"));
        assert_eq!(kind(&configs(&[]), &configs(&[]), "redpanda.1"), "Redpanda");
    }
}
