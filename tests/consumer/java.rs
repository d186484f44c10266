//! Groups whose members are of both kinds: ours, and Kafka's own Java client. Needs a broker with
//! groups (CORELOG_GROUPS_BOOTSTRAP) and Kafka's jars (CORELOG_GROUPS_JARS, a folder).

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::consumer::Assignor;

use super::broker::{Broker, Topic, unique};
use super::groups::{DONE_MAX, Member, PARTITIONS, Seen, all_read, member, produce, read_twice};

/// A Java member and the thread that reads what it prints.
struct JavaMember {
    process: Child,
    printed: JoinHandle<()>,
}

impl JavaMember {
    fn start(
        broker: &Broker,
        group: &str,
        topic: &Topic,
        class: &str,
        jars: &str,
        seen: &[Seen],
    ) -> Self {
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/compatibility/groups/Member.java"
        );
        let class = format!("org.apache.kafka.clients.consumer.{class}");
        let mut process = Command::new("java")
            .args([
                "-cp",
                &format!("{jars}/*"),
                source,
                &broker.bootstrap,
                group,
            ])
            .args([&topic.name, &class])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("java runs");
        let lines = BufReader::new(process.stdout.take().expect("piped"));
        let seen = seen.to_vec();
        let printed = std::thread::spawn(move || {
            for line in lines.lines() {
                let line = line.expect("text");
                let (partition, offset) = line.split_once(' ').expect("PARTITION OFFSET");
                let record = (
                    partition.parse().expect("a number"),
                    offset.parse().expect("a number"),
                );
                for seen in &seen {
                    *seen.lock().expect("no panic").entry(record).or_default() += 1;
                }
            }
        });
        Self { process, printed }
    }

    fn leave(mut self) {
        let input = self.process.stdin.as_mut().expect("piped");
        input.write_all(b"\n").expect("it runs");
        input.flush().expect("it runs");
        assert!(self.process.wait().expect("it ends").success());
        self.printed.join().expect("no panic");
    }
}

/// Waits until our members own so many partitions together.
async fn ours_own(members: &[Member], partitions: usize) {
    let begun = Instant::now();
    loop {
        let owned: usize = members.iter().map(|member| member.owned().len()).sum();
        if owned == partitions {
            return;
        }
        assert!(
            begun.elapsed() < DONE_MAX,
            "ours own {owned} partitions, not {partitions}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_members_and_java_s_share_a_group_whoever_leads_it() {
    let (Some(broker), Ok(jars)) = (Broker::given(), std::env::var("CORELOG_GROUPS_JARS")) else {
        return;
    };
    for (assignor, class) in [
        (Assignor::Range, "RangeAssignor"),
        (Assignor::RoundRobin, "RoundRobinAssignor"),
        (Assignor::Sticky, "StickyAssignor"),
        (Assignor::CooperativeSticky, "CooperativeStickyAssignor"),
    ] {
        for java_leads in [false, true] {
            let topic = broker.topic("mixed", PARTITIONS).await;
            let group = unique("mixed");
            let (all, by_java) = (Seen::default(), Seen::default());
            let ours = || Member::start(member(&broker, &group, assignor), &topic, &all);
            let both = [all.clone(), by_java.clone()];
            let java = || JavaMember::start(&broker, &group, &topic, class, &jars, &both);
            produce(&topic, 0..PARTITIONS, 0..100).await;
            // The first member leads.
            let (members, java) = if java_leads {
                let java = java();
                all_read(&all, i64::from(PARTITIONS) * 100).await;
                (vec![ours(), ours()], java)
            } else {
                let first = ours();
                all_read(&all, i64::from(PARTITIONS) * 100).await;
                (vec![first, ours()], java())
            };
            ours_own(&members, 4).await;
            produce(&topic, 0..PARTITIONS, 100..200).await;
            all_read(&all, i64::from(PARTITIONS) * 200).await;
            java.leave();
            ours_own(&members, 6).await;
            for member in members {
                member.leave().await;
            }
            let javas_share = by_java.lock().expect("no panic").len();
            assert!(javas_share >= 2 * 100, "{assignor:?}: {javas_share}");
            assert_eq!(
                read_twice(&all),
                [],
                "{assignor:?}, Java leads: {java_leads}"
            );
        }
    }
}
