//! Promises of metadata changes. Knows no wire: each check names a request and what must come of it.

use alloc::string::ToString;

use super::*;
use crate::cluster::config::Configs;

const ID: TopicId = TopicId([1; 16]);

fn limits() -> Limits {
    Limits {
        broker: 1,
        partitions_default: 3,
        partitions_max: 100,
        delete_enabled: true,
    }
}

fn topic(name: &str) -> NewTopic {
    NewTopic {
        name: name.into(),
        partitions: -1,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: Vec::new(),
    }
}

fn with_configs(configs: &[(&str, &str)]) -> NewTopic {
    let configs = configs
        .iter()
        .map(|(key, value)| (key.to_string(), Some(value.to_string())));
    NewTopic {
        configs: configs.collect(),
        ..topic("t")
    }
}

/// An image with a topic "t" of three partitions that has this one config.
fn image(key: &str, value: &str) -> Image {
    let mut image = Image::default();
    let records = create_topic(&image, &limits(), &with_configs(&[(key, value)]), ID).unwrap();
    replay(&mut image, &records);
    image
}

fn replay(image: &mut Image, records: &[Record]) {
    records.iter().for_each(|record| image.replay(record));
}

fn create(topic: &NewTopic) -> Result<Vec<Record>, Code> {
    create_topic(&Image::default(), &limits(), topic, ID).map_err(|refused| refused.code)
}

fn on_topic(key: &str, edit: Edit) -> (Resource, [(String, Edit); 1]) {
    (Resource::Topic("t".into()), [(key.into(), edit)])
}

fn edit(image: &Image, edit: (Resource, [(String, Edit); 1])) -> Result<Vec<Record>, Refused> {
    edit_configs(image, &limits(), &Configs::new(), &edit.0, &edit.1)
}

fn set_on_topic(key: &str, value: Option<&str>) -> Record {
    Record::TopicConfigSet {
        id: ID,
        key: key.into(),
        value: value.map(String::from),
    }
}

#[test]
fn names_follow_kafkas_rules() {
    let longest = "a".repeat(249);
    for name in ["a", "A.b_c-9", "...", "__consumer_offsets", &longest] {
        assert_eq!(check_name(name), Ok(()), "{name}");
    }
    let too_long = "a".repeat(250);
    for name in [
        "", ".", "..", "a b", "a/b", "\u{e9}", "a\0", "a\n", &too_long,
    ] {
        assert_eq!(
            check_name(name).unwrap_err().code,
            Code::InvalidTopic,
            "{name}"
        );
    }
}

#[test]
fn a_topic_gets_the_default_number_of_partitions_or_the_one_asked_for() {
    for (asked, given) in [(-1, 3), (1, 1), (100, 100)] {
        let records = create(&NewTopic {
            partitions: asked,
            ..topic("t")
        })
        .unwrap();
        let assignments = vec![vec![1]; given];
        assert_eq!(
            records,
            [Record::TopicCreated {
                id: ID,
                name: "t".into(),
                assignments
            }]
        );
    }
    for (asked, code) in [
        (0, Code::InvalidPartitions),
        (-2, Code::InvalidPartitions),
        (101, Code::Policy),
        (i32::MAX, Code::Policy),
    ] {
        assert_eq!(
            create(&NewTopic {
                partitions: asked,
                ..topic("t")
            }),
            Err(code),
            "{asked}"
        );
    }
}

#[test]
fn one_broker_replicates_once() {
    assert!(
        create(&NewTopic {
            replication_factor: 1,
            ..topic("t")
        })
        .is_ok()
    );
    for replication_factor in [0, -2, 2, i16::MAX] {
        let code = create(&NewTopic {
            replication_factor,
            ..topic("t")
        });
        assert_eq!(code, Err(Code::InvalidReplicationFactor));
    }
}

#[test]
fn a_manual_assignment_names_each_partition_once_and_brokers_that_exist() {
    let manual = |assignments: &[(i32, &[i32])]| NewTopic {
        assignments: assignments
            .iter()
            .map(|(index, ids)| (*index, ids.to_vec()))
            .collect(),
        ..topic("t")
    };
    let records = create(&manual(&[(1, &[1]), (0, &[1])])).unwrap();
    let assignments = vec![vec![1], vec![1]];
    assert_eq!(
        records,
        [Record::TopicCreated {
            id: ID,
            name: "t".into(),
            assignments
        }]
    );
    let wrong: [&[(i32, &[i32])]; 7] = [
        &[(1, &[1])],
        &[(-1, &[1])],
        &[(0, &[1]), (2, &[1])],
        &[(0, &[1]), (0, &[1])],
        &[(0, &[])],
        &[(0, &[2])],
        &[(0, &[1, 1])],
    ];
    for assignments in wrong {
        assert_eq!(
            create(&manual(assignments)),
            Err(Code::InvalidAssignment),
            "{assignments:?}"
        );
    }
    for (partitions, replication_factor) in [(1, -1), (-1, 1)] {
        let both = NewTopic {
            partitions,
            replication_factor,
            ..manual(&[(0, &[1])])
        };
        assert_eq!(create(&both), Err(Code::InvalidRequest));
    }
}

#[test]
fn a_name_is_taken_once_and_may_not_share_its_metrics() {
    let mut image = Image::default();
    let records = create_topic(&image, &limits(), &topic("a.b_c"), ID).unwrap();
    replay(&mut image, &records);
    let code = |name| {
        let other = TopicId([2; 16]);
        create_topic(&image, &limits(), &topic(name), other).map_err(|refused| refused.code)
    };
    assert_eq!(code("a.b_c"), Err(Code::TopicExists));
    assert_eq!(code("a_b.c"), Err(Code::InvalidTopic));
    assert!(code("a-b_c").is_ok());
    assert!(code("a.b_c.d").is_ok());
}

#[test]
fn partitions_over_all_topics_are_capped() {
    let mut image = Image::default();
    let big = NewTopic {
        partitions: 98,
        ..topic("big")
    };
    let records = create_topic(&image, &limits(), &big, ID).unwrap();
    replay(&mut image, &records);
    let other = TopicId([2; 16]);
    let refused = create_topic(&image, &limits(), &topic("t"), other).unwrap_err();
    assert_eq!(refused.code, Code::Policy);
    let grown = create_partitions(&image, &limits(), "big", 101, None).unwrap_err();
    assert_eq!(grown.code, Code::Policy);
    assert!(create_partitions(&image, &limits(), "big", 100, None).is_ok());
}

#[test]
fn a_topic_is_created_with_its_configs_checked_and_in_one_form() {
    let records = create(&with_configs(&[("retention.ms", " 5 ")])).unwrap();
    assert_eq!(records[1..], [set_on_topic("retention.ms", Some("5"))]);
    for configs in [
        [("nope", "1")].as_slice(),
        &[("retention.ms", "soon")],
        &[("remote.storage.enable", "true")],
        &[
            ("min.compaction.lag.ms", "9"),
            ("max.compaction.lag.ms", "8"),
        ],
    ] {
        assert_eq!(
            create(&with_configs(configs)),
            Err(Code::InvalidConfig),
            "{configs:?}"
        );
    }
    let twice = with_configs(&[("retention.ms", "1"), ("retention.ms", "2")]);
    assert_eq!(create(&twice), Err(Code::InvalidRequest));
    let absent = NewTopic {
        configs: vec![("retention.ms".into(), None)],
        ..topic("t")
    };
    assert_eq!(create(&absent).unwrap().len(), 1);
    let unknown = NewTopic {
        configs: vec![("nope".into(), None)],
        ..topic("t")
    };
    assert_eq!(create(&unknown), Err(Code::InvalidConfig));
}

#[test]
fn an_unknown_config_is_named() {
    let configs = with_configs(&[("nope", "1")]);
    let refused = create_topic(&Image::default(), &limits(), &configs, ID).unwrap_err();
    assert_eq!(refused.message, "Unknown topic config name: nope");
}

#[test]
fn topics_are_deleted_by_name_or_id_unless_that_is_off() {
    let image = image("retention.ms", "5");
    let delete = |limits: &Limits, name: &TopicName| {
        delete_topic(&image, limits, name).map_err(|refused| refused.code)
    };
    let deleted = Ok(vec![Record::TopicDeleted { id: ID }]);
    assert_eq!(delete(&limits(), &TopicName::Name("t".into())), deleted);
    assert_eq!(delete(&limits(), &TopicName::Id(ID)), deleted);
    let unknown = TopicName::Name("u".into());
    assert_eq!(delete(&limits(), &unknown), Err(Code::UnknownTopic));
    let unknown = TopicName::Id(TopicId([9; 16]));
    assert_eq!(delete(&limits(), &unknown), Err(Code::UnknownTopicId));
    let off = Limits {
        delete_enabled: false,
        ..limits()
    };
    assert_eq!(
        delete(&off, &TopicName::Id(ID)),
        Err(Code::DeletionDisabled)
    );
}

#[test]
fn partitions_are_only_added() {
    let image = image("retention.ms", "5");
    let grow = |count, given: Option<&[Vec<i32>]>| {
        create_partitions(&image, &limits(), "t", count, given).map_err(|refused| refused.code)
    };
    let added = |count| {
        Ok(vec![Record::PartitionsAdded {
            id: ID,
            assignments: vec![vec![1]; count],
        }])
    };
    assert_eq!(grow(5, None), added(2));
    assert_eq!(grow(4, Some(&[vec![1]])), added(1));
    for count in [3, 2, 0, -1] {
        assert_eq!(grow(count, None), Err(Code::InvalidPartitions), "{count}");
    }
    let wrong: [&[Vec<i32>]; 4] = [&[], &[vec![1], vec![1]], &[vec![2]], &[vec![]]];
    for given in wrong {
        assert_eq!(
            grow(4, Some(given)),
            Err(Code::InvalidAssignment),
            "{given:?}"
        );
    }
    let unknown = create_partitions(&image, &limits(), "u", 9, None).unwrap_err();
    assert_eq!(unknown.code, Code::UnknownTopic);
}

#[test]
fn one_config_is_edited_and_the_others_stay() {
    let image = image("cleanup.policy", "delete");
    let set = |edit| Ok(vec![set_on_topic("cleanup.policy", edit)]);
    let policy = |with| edit(&image, on_topic("cleanup.policy", with));
    assert_eq!(policy(Edit::Set("compact".into())), set(Some("compact")));
    assert_eq!(
        policy(Edit::Append("compact".into())),
        set(Some("delete,compact"))
    );
    assert_eq!(policy(Edit::Append("delete".into())), set(Some("delete")));
    assert_eq!(policy(Edit::Delete), set(None));
    let emptied = policy(Edit::Subtract("delete".into())).unwrap_err();
    assert_eq!(emptied.code, Code::InvalidConfig);
    let appended = edit(&image, on_topic("retention.ms", Edit::Append("1".into()))).unwrap_err();
    assert_eq!(appended.code, Code::InvalidConfig);
}

#[test]
fn a_list_is_appended_to_its_default_when_nothing_is_set() {
    let image = image("retention.ms", "5");
    let appended = edit(
        &image,
        on_topic("cleanup.policy", Edit::Append("compact".into())),
    );
    assert_eq!(
        appended,
        Ok(vec![set_on_topic("cleanup.policy", Some("delete,compact"))])
    );
}

#[test]
fn edits_are_refused_whole() {
    let image = image("min.compaction.lag.ms", "9");
    let refused = |key: &str, with| edit(&image, on_topic(key, with)).unwrap_err().code;
    assert_eq!(refused("nope", Edit::Delete), Code::InvalidConfig);
    assert_eq!(
        refused("retention.ms", Edit::Set("x".into())),
        Code::InvalidConfig
    );
    let lag = Edit::Set("8".into());
    assert_eq!(refused("max.compaction.lag.ms", lag), Code::InvalidConfig);
    let twice = [
        ("retention.ms".into(), Edit::Delete),
        ("retention.ms".into(), Edit::Delete),
    ];
    let topic = Resource::Topic("t".into());
    let twice = edit_configs(&image, &limits(), &Configs::new(), &topic, &twice).unwrap_err();
    assert_eq!(twice.code, Code::InvalidRequest);
    let unknown = Resource::Topic("u".into());
    let unknown = edit_configs(&image, &limits(), &Configs::new(), &unknown, &[]).unwrap_err();
    assert_eq!(unknown.code, Code::UnknownTopic);
}

#[test]
fn replacing_unsets_what_is_not_named() {
    let mut image = image("retention.ms", "5");
    image.replay(&set_on_topic("from.an.older.version", Some("1")));
    let topic = Resource::Topic("t".into());
    let configs = [("segment.ms".into(), Some("7".into()))];
    let records = replace_configs(&image, &limits(), &Configs::new(), &topic, &configs).unwrap();
    replay(&mut image, &records);
    let configs = &image.topic(ID).unwrap().configs;
    assert_eq!(
        configs.iter().collect::<Vec<_>>(),
        [(&"segment.ms".into(), &"7".into())]
    );
}

#[test]
fn a_brokers_defaults_are_changed_by_the_brokers_names() {
    let image = Image::default();
    let on = |broker, key: &str, with: Edit| {
        edit(&image, (Resource::Broker(broker), [(key.into(), with)]))
    };
    for broker in [None, Some(1)] {
        let (key, value) = ("log.retention.ms".into(), Some("5".into()));
        let set = Record::BrokerConfigSet { broker, key, value };
        assert_eq!(
            on(broker, "log.retention.ms", Edit::Set("05".into())),
            Ok(vec![set])
        );
    }
    let refused = |broker, key, value: &str| on(broker, key, Edit::Set(value.into())).unwrap_err();
    assert_eq!(
        refused(Some(2), "log.retention.ms", "5").code,
        Code::InvalidRequest
    );
    assert_eq!(
        refused(None, "log.retention.ms", "x").code,
        Code::InvalidConfig
    );
    assert_eq!(
        refused(None, "retention.ms", "5").message,
        "Unknown broker config name: retention.ms"
    );
    let fixed = refused(None, "num.partitions", "5");
    assert_eq!(
        fixed.message,
        "Cannot update these configs dynamically: num.partitions"
    );
    let other = Resource::Broker(Some(2));
    let other = edit_configs(&image, &limits(), &Configs::new(), &other, &[]).unwrap_err();
    assert_eq!(other.code, Code::InvalidRequest);
}

#[test]
fn a_groups_configs_need_no_group_and_keep_to_the_brokers_bounds() {
    const INTERVAL: &str = "consumer.heartbeat.interval.ms";
    let mut image = Image::default();
    let on = |image: &Image, group: &str, key: &str, with: Edit| {
        edit(image, (Resource::Group(group.into()), [(key.into(), with)]))
    };
    let set = |value: &str| Edit::Set(value.into());
    let record = |value: Option<&str>| Record::GroupConfigSet {
        group: "g".into(),
        key: INTERVAL.into(),
        value: value.map(String::from),
    };
    let records = on(&image, "g", INTERVAL, set(" 6000")).unwrap();
    assert_eq!(records, [record(Some("6000"))]);
    replay(&mut image, &records);
    assert_eq!(
        on(&image, "g", INTERVAL, set("6000")),
        Ok(vec![]),
        "it is so"
    );
    assert_eq!(
        on(&image, "g", INTERVAL, Edit::Delete),
        Ok(vec![record(None)])
    );
    assert_eq!(on(&image, "h", INTERVAL, Edit::Delete), Ok(vec![]));
    assert_eq!(
        on(&image, "g", "nope", Edit::Delete),
        Ok(vec![]),
        "as in Kafka"
    );
    for (group, key, with, code) in [
        ("g", INTERVAL, set("4999"), Code::InvalidConfig),
        ("g", INTERVAL, set("soon"), Code::InvalidConfig),
        ("g", INTERVAL, Edit::Append("1".into()), Code::InvalidConfig),
        ("g", "retention.ms", set("6000"), Code::InvalidConfig),
        ("", INTERVAL, set("6000"), Code::InvalidRequest),
        (
            &"g".repeat(5_000),
            INTERVAL,
            set("6000"),
            Code::InvalidRequest,
        ),
    ] {
        let refused = on(&image, group, key, with).unwrap_err();
        assert_eq!(refused.code, code, "{key}: {}", refused.message);
    }
    let (g, other) = (Resource::Group("g".into()), "consumer.session.timeout.ms");
    let configs = [(other.into(), Some("50000".into()))];
    let replaced = replace_configs(&image, &limits(), &Configs::new(), &g, &configs).unwrap();
    replay(&mut image, &replaced);
    let left = image.group_configs("g").unwrap();
    assert_eq!(left.keys().collect::<Vec<_>>(), [other]);
}

#[test]
fn a_group_has_no_session_that_its_own_heartbeats_would_miss() {
    let bounds = [
        "consumer.min.session.timeout",
        "consumer.min.heartbeat.interval",
    ];
    let bounds = bounds.map(|it| (alloc::format!("group.{it}.ms"), "10".into()));
    let statics = Configs::from(bounds);
    let g = Resource::Group("g".into());
    let edits = |session: &str| {
        [
            (
                "consumer.session.timeout.ms".into(),
                Edit::Set(session.into()),
            ),
            (
                "consumer.heartbeat.interval.ms".into(),
                Edit::Set("100".into()),
            ),
        ]
    };
    let edit = |session| edit_configs(&Image::default(), &limits(), &statics, &g, &edits(session));
    assert_eq!(edit("100").unwrap_err().code, Code::InvalidConfig);
    assert_eq!(edit("101").unwrap().len(), 2);
}

#[test]
fn groups_that_have_configs_are_counted() {
    let mut image = Image::default();
    let on = |image: &Image, group: &str| {
        let key = "consumer.heartbeat.interval.ms".into();
        let edits = [(key, Edit::Set("6000".into()))];
        edit(image, (Resource::Group(group.into()), edits))
    };
    for number in 0..10_000 {
        let records = on(&image, &number.to_string()).unwrap();
        replay(&mut image, &records);
    }
    assert_eq!(on(&image, "g").unwrap_err().code, Code::Policy);
    assert_eq!(on(&image, "7"), Ok(vec![]), "it has some already");
}

#[test]
fn producer_id_blocks_do_not_overlap() {
    let mut image = Image::default();
    for expected in [0, 1000, 2000] {
        let (first, record) = allocate_producer_ids(&image);
        assert_eq!(first, expected);
        image.replay(&record);
    }
    image.replay(&Record::ProducerIdsAllocated { next: i64::MAX });
    let (first, _) = allocate_producer_ids(&image);
    assert!(first > 0);
}
