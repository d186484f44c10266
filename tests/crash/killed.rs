//! Brokers that are killed or stopped under load. Knows the broker as a process and a client only.

use std::time::Duration;

use client::direct::Acks;

use crate::broker::{Broker, DataDir, number};
use crate::choices::Choices;
use crate::load::{Rules, loads, under_load, verify};

const STOP_MAX: Duration = Duration::from_secs(5);
/// NOT_LEADER_OR_FOLLOWER: a stopping broker may say so.
const NOT_LEADER: i16 = 6;

/// Half of the partitions are written with acks=all, the others with acks=1.
const RULES: Rules<'static> = Rules {
    configs: &[],
    acks: |partition| {
        if partition % 2 == 0 {
            Acks::All
        } else {
            Acks::Leader
        }
    },
    refusals: &[NOT_LEADER],
};

/// Kills it again and again, in the middle of its work.
pub fn kill_9_loses_nothing_acknowledged_and_duplicates_nothing() {
    let rounds: usize = number("CORELOG_CRASH_ROUNDS", 4);
    let seed = crate::seed();
    crate::runtime().block_on(async move {
        let mut choices = Choices(seed);
        let data = DataDir::new("crash-kill");
        let mut broker = Broker::start(&data, 2).await;
        let mut all = loads(broker.address, seed, &RULES).await;
        for round in 1..=rounds {
            let for_ms = 50 + choices.below(500);
            ((), all) = under_load(broker, all, for_ms, Broker::kill).await;
            broker = Broker::start(&data, 1 + round % 2).await;
            let took = broker.answered_after;
            let records = verify(broker.address, &all).await.expect("all is there");
            println!("round {round}: killed after {for_ms} ms, answers {took:?} after its start, {records} records right");
        }
    });
}

/// Stops it once.
pub fn sigterm_under_load_stops_in_time_and_loses_nothing() {
    let seed = crate::seed();
    crate::runtime().block_on(async move {
        let data = DataDir::new("crash-term");
        let broker = Broker::start(&data, 2).await;
        let took = broker.answered_after;
        println!("answers {took:?} after its start on an empty directory");
        let all = loads(broker.address, seed, &RULES).await;
        let (took, all) = under_load(broker, all, 400, Broker::terminate).await;
        println!("stopped in {took:?}");
        assert!(took < STOP_MAX, "a stop takes {took:?}");
        let broker = Broker::start(&data, 2).await;
        let took = broker.answered_after;
        let records = verify(broker.address, &all).await.expect("all is there");
        println!("answers {took:?} after a clean stop, {records} records right");
    });
}
