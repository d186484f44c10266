//! Members of many groups in one process: all join at once, and a line of JSON says when every group is
//! stable. Signals begin and end a storm and ask for figures. Run by `benches/groups/run`; knows the broker
//! as an address only.
#![forbid(unsafe_code)]

mod options;

mod prepare;

mod board;
mod random;
mod storm;

mod classic;
mod consumer;
mod member;

use std::cell::{Cell, RefCell};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::Parser;
use client::direct::Error;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use board::{Board, Place};
use member::{Member, Shared};
use options::{Options, Protocol};
use random::Random;
use storm::Storm;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    match LocalSet::new().run_until(run(options)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), Error> {
    let ears = Ears::open()?;
    prepare::prepare(&options).await?;
    let partitions = usize::try_from(options.partitions).unwrap_or(0);
    let shared = Rc::new(Shared {
        board: RefCell::new(Board::new(options.groups, options.members, partitions)),
        stable: Notify::new(),
        spread: Cell::new(false),
        random: RefCell::new(Random::new(options.seed)),
        options,
    });
    let (members, told) = connect(&shared).await?;
    say("connected", json!({ "members": members.len() }));
    let storm = Storm::new(told, &shared.options);
    let begun = Instant::now();
    for member in members {
        match shared.options.protocol {
            Protocol::Classic => spawn_local(classic::live(member)),
            Protocol::Consumer => spawn_local(consumer::live(member)),
        };
    }
    watch(&shared, storm, ears, begun).await;
    Ok(())
}

/// All members' connections, and by group how the storm reaches them.
async fn connect(shared: &Rc<Shared>) -> Result<(Vec<Member>, Vec<Vec<Rc<Notify>>>), Error> {
    let mut members = Vec::new();
    let mut told = Vec::new();
    for group in 0..shared.options.groups {
        let mut ears = Vec::new();
        for member in 0..shared.options.members {
            let ear = Rc::new(Notify::new());
            let place = Place { group, member };
            members.push(Member::connect(shared, place, ear.clone()).await?);
            ears.push(ear);
        }
        told.push(ears);
    }
    Ok((members, told))
}

/// The signals.
struct Ears {
    storm: Signal,
    figures: Signal,
    end: Signal,
}

impl Ears {
    fn open() -> Result<Self, Error> {
        Ok(Self {
            storm: signal(SignalKind::user_defined1())?,
            figures: signal(SignalKind::user_defined2())?,
            end: signal(SignalKind::terminate())?,
        })
    }
}

/// Says what happens until the end.
async fn watch(shared: &Shared, mut storm: Storm, mut ears: Ears, begun: Instant) {
    let options = &shared.options;
    let end = begun + Duration::from_secs(options.seconds_max);
    let mut gusts = interval(options.gust_every());
    gusts.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut since = begun;
    let mut storms = false;
    loop {
        let event = tokio::select! {
            _ = ears.end.recv() => return,
            () = sleep_until(end) => return,
            _ = ears.storm.recv() => {
                storms = !storms;
                if storms { "storm" } else { "calm" }
            }
            _ = ears.figures.recv() => "figures",
            () = shared.stable.notified(), if !storms => {
                // It may have been so in the middle of a storm only.
                if !shared.board.borrow().is_stable() {
                    continue;
                }
                "stable"
            }
            _ = gusts.tick() => {
                if storms {
                    storm.gust();
                }
                continue;
            }
        };
        let mut figures = shared.board.borrow_mut().take_figures();
        figures["seconds"] = json!(since.elapsed().as_secs_f64());
        say(event, figures);
        match event {
            "stable" => shared.spread.set(true),
            "storm" | "calm" => since = Instant::now(),
            _ => {}
        }
        // Every group may be stable already when a storm ends.
        if event == "calm" && shared.board.borrow().is_stable() {
            shared.stable.notify_one();
        }
    }
}

/// One line on standard output.
fn say(event: &str, mut what: Value) {
    what["event"] = json!(event);
    println!("{what}");
}
