//! Promises about settings: what is written down is what is known, and every fault is told at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use logic::cluster::config::TABLE;

use super::*;

fn file(text: &str) -> Sources {
    Sources {
        file: Some((PathBuf::from("my.toml"), text.to_owned())),
        ..Sources::default()
    }
}

fn faults(sources: &Sources) -> Vec<String> {
    let faults = Effective::load(sources).expect_err("something is wrong");
    faults.0.iter().map(ToString::to_string).collect()
}

fn settings(sources: &Sources) -> Settings {
    let effective = Effective::load(sources).unwrap_or_else(|faults| panic!("{faults}"));
    effective
        .settings()
        .unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn defaults_are_what_the_issue_promises() {
    let settings = Settings::defaults();
    assert_eq!(settings.listener.listen.to_string(), "127.0.0.1:9092");
    assert_eq!(settings.listener.advertise, None);
    assert_eq!(settings.data.dirs, [Path::new("./corelog-data")]);
    assert_eq!(settings.shards.count, 0);
    assert_eq!(settings.network.socket_request_max_bytes, 104_857_600);
    assert_eq!(settings.fetch.max_bytes, 57_671_680);
    assert!(settings.kafka.is_empty(), "nobody has set a topic default");
    assert!(settings.shard_count() >= 1);
}

#[test]
fn several_data_directories_are_told_apart_and_none_is_named_twice() {
    let named = |list: &str| settings(&file(&format!("[kafka]\n\"log.dirs\" = \"{list}\"\n")));
    let several = named("/a, /b/c,d");
    assert_eq!(several.data.dirs, ["/a", "/b/c", "d"].map(PathBuf::from));
    assert_eq!(several.data.first(), Path::new("/a"));
    assert_eq!(several.statics()["log.dirs"], "/a,/b/c,d");
    let refused = |list: &str| faults(&file(&format!("[data]\ndir = \"{list}\"\n"))).join("\n");
    assert!(refused("/a,/b,/a/").contains("`/a/` is named twice"));
    assert!(refused("/a,,/b").contains("nothing between two commas"));
}

#[test]
fn every_setting_is_explained_by_a_comment_right_above_it() {
    let mut above = "";
    for line in DEFAULTS.lines() {
        let is_setting = !line.is_empty() && !line.starts_with(['#', '[']);
        assert!(
            !is_setting || above.starts_with("# "),
            "unexplained: {line}"
        );
        above = line;
    }
}

#[test]
fn every_setting_has_a_rule_and_every_rule_a_setting() {
    let effective = Effective::load(&Sources::default()).expect("the defaults are right");
    let entries = effective.entries().iter();
    let written: BTreeSet<(String, String)> = entries
        .filter(|entry| entry.section != "kafka")
        .map(|entry| (entry.section.clone(), entry.key.clone()))
        .collect();
    let ruled: BTreeSet<(String, String)> = rules::RULES
        .iter()
        .map(|rule| (rule.0.to_owned(), rule.1.to_owned()))
        .collect();
    assert_eq!(written, ruled);
    for (name, section, key) in rules::ALIASES {
        assert!(rules::find(section, key).is_some(), "{name} leads nowhere");
    }
    for entry in effective.entries() {
        if let Some(rule) = rules::find(&entry.section, &entry.key) {
            assert_eq!(rule.check(&entry.value), Ok(()), "{}", entry.key);
        }
    }
}

#[test]
fn topic_defaults_are_those_of_the_topic_configs_and_say_which_have_no_effect() {
    let effective = Effective::load(&Sources::default()).expect("the defaults are right");
    let entries = effective.entries().iter();
    let written: BTreeSet<(&str, &str)> = entries
        .filter(|entry| entry.section == "kafka")
        .map(|entry| (entry.key.as_str(), entry.value.as_str().unwrap_or_default()))
        .collect();
    let named = TABLE
        .iter()
        .filter_map(|config| Some((config.broker_name?, config.default)));
    assert_eq!(written, named.collect());
    let lines: Vec<&str> = DEFAULTS.lines().collect();
    for config in TABLE {
        let Some(name) = config.broker_name else {
            continue;
        };
        let start = format!("\"{name}\" =");
        let at = lines.iter().position(|line| line.starts_with(&start));
        let comment = lines[at.expect("checked above") - 1];
        assert_eq!(comment.starts_with("# (kept)"), !config.effect, "{name}");
    }
}

#[test]
fn a_file_lies_over_the_defaults_the_environment_over_it_and_flags_over_all() {
    let mut sources = file("[topics]\nnum_partitions = 2\n[wal]\nextent_bytes = 8388608\n");
    assert_eq!(settings(&sources).topics.num_partitions, 2);
    let variable = ("CORELOG_TOPICS__NUM_PARTITIONS".to_owned(), "3".to_owned());
    sources.environment.push(variable);
    assert_eq!(settings(&sources).topics.num_partitions, 3);
    sources.flags.push(Flag {
        name: "--partitions",
        section: "topics",
        key: "num_partitions",
        value: "4".to_owned(),
    });
    let effective = Effective::load(&sources).expect("all are right");
    let settings = effective.settings().expect("all are right");
    assert_eq!(settings.topics.num_partitions, 4);
    assert_eq!(settings.wal.extent_bytes, 8_388_608);
    let shown = effective.show(true);
    let line = |start: &str| {
        let found = shown.lines().find(|line| line.starts_with(start));
        found.expect("every setting is shown").to_owned()
    };
    assert!(line("num_partitions").ends_with("# flag --partitions"));
    assert!(line("extent_bytes").ends_with("# my.toml:4"));
    assert!(line("commit_bytes_max").ends_with("# default"));
}

#[test]
fn all_faults_are_told_at_once_with_line_and_nearest_match() {
    let text = "[listener]\nlisen = \"127.0.0.1:1\"\n\n[topcs]\nnum_partitions = 1\n[topics]\n\
                num_partitions = \"many\"\nextent_bytes = 4096\n[kafka]\nlog.segment.byte = 1\n\
                \"log.roll.ms\" = 0\n[shards]\nring_entries = 100\n";
    let mut sources = file(text);
    sources.environment = vec![
        ("CORELOG_FETCH__MAX_BYTE".into(), "1".into()),
        ("CORELOG_DATA__DIR".into(), String::new()),
        ("CORELOG_PORT".into(), "tcp://10.0.0.1".into()),
    ];
    sources.flags.push(Flag {
        name: "--shards",
        section: "shards",
        key: "count",
        value: "two".to_owned(),
    });
    assert_eq!(
        faults(&sources),
        [
            "my.toml:2: unknown setting `lisen` in [listener]; did you mean `listen`?",
            "my.toml:5: unknown section [topcs], for `num_partitions`; did you mean [topics]?",
            "my.toml:7: topics.num_partitions: must be a whole number, not the text \"many\"",
            "my.toml:8: unknown setting `extent_bytes` in [topics]; did you mean `extent_bytes` in [wal]?",
            "my.toml:10: unknown setting `log.segment.byte` in [kafka]; did you mean `log.segment.bytes`?",
            "my.toml:11: kafka.log.roll.ms: `0` will not do: Value must be at least 1",
            "my.toml:13: shards.ring_entries: 100 is not a power of two",
            "environment CORELOG_FETCH__MAX_BYTE: unknown setting `max_byte` in [fetch]; did you mean `max_bytes`?",
            "environment CORELOG_DATA__DIR: data.dir: must not be empty",
            "flag --shards: shards.count: `two` is not a whole number",
        ]
    );
}

#[test]
fn the_nearest_match_is_near_or_there_is_none() {
    let known = ["node_id", "rack", "log.segment.bytes"];
    let near = |written| fault::nearest(written, known.into_iter());
    assert_eq!(near("node"), Some("node_id"));
    assert_eq!(near("NODE-ID"), Some("node_id"));
    assert_eq!(near("rakc"), Some("rack"));
    assert_eq!(near("log_segment_byte"), Some("log.segment.bytes"));
    assert_eq!(near("partitions"), None);
}

#[test]
fn broken_syntax_is_told_with_its_line_beside_other_faults() {
    let told = faults(&file("[wal]\nextent_bytes = \n[fetch]\nnothing = 1\nx\n"));
    assert!(
        told.iter().any(|it| it.starts_with("my.toml:2: ")),
        "{told:?}"
    );
    assert!(
        told.iter().any(|it| it.starts_with("my.toml:5: ")),
        "{told:?}"
    );
    let unknown = "my.toml:4: unknown setting `nothing` in [fetch]";
    assert!(told.iter().any(|it| it == unknown), "{told:?}");
}

#[test]
fn kafkas_names_work_quoted_and_unquoted_and_by_variable() {
    let mut sources = file(
        "[kafka]\nlog.segment.bytes = 2097152\n\"num.partitions\" = 5\nlog.retention.ms = \"-1\"\n",
    );
    let variable = "CORELOG_KAFKA__MESSAGE_MAX_BYTES".to_owned();
    sources.environment.push((variable, "2000000".to_owned()));
    let settings = settings(&sources);
    assert_eq!(settings.topics.num_partitions, 5);
    assert_eq!(settings.kafka["log.segment.bytes"], "2097152");
    assert_eq!(settings.kafka["log.retention.ms"], "-1");
    assert_eq!(settings.kafka["message.max.bytes"], "2000000");
    assert_eq!(settings.kafka.len(), 3, "what nobody set is not set");
    assert_eq!(settings.statics()["num.partitions"], "5");
}

#[test]
fn one_setting_by_two_spellings_is_a_fault() {
    let told = faults(&file(
        "[topics]\nnum_partitions = 1\n[kafka]\nnum.partitions = 2\n",
    ));
    let wanted = "my.toml:4: topics.num_partitions: set twice, also by my.toml:2";
    assert_eq!(told, [wanted]);
}

#[test]
fn settings_that_contradict_each_other_are_told() {
    let told = faults(&file(
        "[wal]\nbytes_max = 33554432\n[network]\nrequest_memory_bytes = 4096\n",
    ));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("my.toml:2: wal.bytes_max: "),
        "{told:?}"
    );
    assert!(told[1].starts_with("my.toml:4: network.request_memory_bytes: "));
}

#[test]
fn what_is_shown_can_be_loaded_again_and_means_the_same() {
    let sources =
        file("[kafka]\nlog.cleanup.policy = \"compact,delete\"\n[broker]\nrack = 'a \"b'\n");
    let first = Effective::load(&sources).expect("right");
    let again = Effective::load(&file(&first.show(true))).unwrap_or_else(|it| panic!("{it}"));
    assert_eq!(first.show(false), again.show(false));
}

#[test]
fn addresses_are_host_and_port() {
    for right in [
        "localhost:9092",
        "10.1.2.3:1",
        "[::1]:9092",
        "a-b.example:65535",
    ] {
        let parsed = HostPort::parse(right).expect(right);
        assert_eq!(parsed.to_string(), right);
    }
    for wrong in [
        "",
        "9092",
        ":9092",
        "host:",
        "host:65536",
        "::1:9092",
        "http://a:1",
    ] {
        assert!(HostPort::parse(wrong).is_err(), "{wrong}");
    }
    assert!(parse_advertise("0.0.0.0:9092").is_err());
    assert!(parse_advertise("host:0").is_err());
    let resolved = resolve_listen("localhost:0").expect("this machine has a localhost");
    assert!(resolved.ip().is_loopback());
}

#[test]
fn kafkas_older_units_are_taken_where_kafka_takes_them() {
    let text = "[kafka]\n\"log.retention.hours\" = 24\nlog.roll.hours = 2\n";
    let settings = settings(&file(text));
    assert_eq!(settings.kafka["log.retention.hours"], "24");
    assert_eq!(settings.statics()["log.roll.hours"], "2");
    let twice = "[kafka]\nlog.roll.hours = 0\n";
    let faults = faults(&file(twice));
    assert!(faults[0].contains("log.roll.hours"), "{faults:?}");
}
