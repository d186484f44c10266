//! One seed's story: lives of a shard's storage, each ended by a power cut, a failed operation, a read that
//! goes wrong or a clean stop, and a look at all that is there when the next one begins.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use logic::ids::LeaderEpoch;
use reactor::Reactor;
use reactor::blocking::fs;
use reactor::bug::Bug;
use reactor::disk::Survival;
use reactor::world::{Faults, Misread, PowerCut, World};
use simulated::storage::{Storage, recover};

use crate::ghost::Ghost;
use crate::shard::{Life, Lived, attach, live_once, settings};

pub const DATA: &str = "/data";
/// More than most lives take.
const OPERATIONS_MAX: u64 = 700;
/// Recovery has read most of what it reads after so many operations.
const READS_MAX: u64 = 40;
/// What recovery can do without.
const CACHES: [&str; 2] = ["checkpoint", "clean-below"];
const CACHE_ENDINGS: [&str; 2] = ["index", "timeindex"];

/// What is to happen.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub lives: u64,
    pub bug: Option<Bug>,
    /// This operation of the first life fails, and nothing else goes wrong in it.
    pub fail_at: Option<u64>,
    pub tell: bool,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub trace: u64,
    pub operations: u64,
    pub appended: u64,
    pub power_cuts: u64,
    pub failures: u64,
    pub misreads: u64,
    /// Segments that retention took.
    pub retained: u64,
    pub cleanings: u64,
    pub cleaned_bytes: u64,
    /// Logs that were deleted.
    pub deleted: u64,
    /// Operations until the end of the first life.
    pub first_life: u64,
    /// By kind, how often the power went with such an operation.
    pub cut_at: BTreeMap<&'static str, u64>,
}

/// How a life was to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    PowerCut,
    Failure,
    /// By a power cut or by itself; while it began a read went wrong.
    Misread,
    CleanStop,
}

struct Teller {
    world: World,
    ghost: Rc<RefCell<Ghost>>,
    outcome: Rc<RefCell<Outcome>>,
}

/// Lives through it; panics when something is not as it must be.
pub fn live(plan: Plan) -> Outcome {
    let world = World::new(plan.seed);
    if plan.tell {
        world.tell();
    }
    let teller = Teller {
        world: world.clone(),
        ghost: Rc::default(),
        outcome: Rc::default(),
    };
    // Whoever starts a broker has made its directory durable.
    world
        .run_blocking(|| {
            fs::create_dir_all(DATA).expect("an empty disk");
            let root = fs::File::open("/").expect("the root");
            root.sync_all().expect("no faults yet");
        })
        .expect("no power cut yet");
    let begun = world.operations();
    for life in 0..plan.lives {
        teller.life(plan, life);
        if life == 0 {
            teller.outcome.borrow_mut().first_life = world.operations() - begun;
        }
    }
    teller.last_look(plan);
    let mut outcome = teller.outcome.borrow().clone();
    outcome.trace = world.trace();
    outcome.operations = world.operations();
    outcome.misreads = world.misreads();
    let ghost = teller.ghost.borrow();
    let logs = ghost.logs.values();
    outcome.appended = logs.map(|log| log.batches.len() as u64).sum();
    outcome
}

impl Teller {
    fn life(&self, plan: Plan, number: u64) {
        let world = &self.world;
        let end = match world.below(5) {
            _ if number == 0 && plan.fail_at.is_some() => End::Failure,
            0 => End::CleanStop,
            1 => End::Failure,
            2 => End::Misread,
            _ => End::PowerCut,
        };
        let lose_caches = number > 0 && world.one_in(4);
        if lose_caches {
            self.lose_caches();
        }
        self.ghost.borrow_mut().caches_lost |= lose_caches || end == End::Misread;
        let now = world.operations();
        let at = now + 1 + world.below(OPERATIONS_MAX);
        let sweep = plan.fail_at.filter(|_| number == 0);
        let how = [Misread::Flipped, Misread::Elsewhere, Misread::Zeros];
        let misread = (now + world.below(READS_MAX), how[world.below(3) as usize]);
        world.set_faults(Faults {
            power_cut_at: matches!(end, End::PowerCut | End::Misread).then_some(at),
            fail_at: (end == End::Failure).then(|| sweep.map_or(at, |number| now + number)),
            full: world.one_in(2),
            misread_at: (end == End::Misread).then_some(misread),
            bug: plan.bug,
        });
        let epoch = LeaderEpoch(number as i32);
        let life = Life {
            end,
            epoch,
            caches_lost: self.ghost.borrow().caches_lost,
            flushes_one_in: [1, 2, 2, 8, 64][world.below(5) as usize],
        };
        if self.start(life) == Err(PowerCut) {
            let mut outcome = self.outcome.borrow_mut();
            outcome.power_cuts += 1;
            *outcome.cut_at.entry(world.last_operation()).or_default() += 1;
        }
        let survival = match world.below(4) {
            0 => Survival::Nothing,
            1 => Survival::All,
            _ => Survival::Some,
        };
        world.power_cut(survival);
    }

    /// From start-up to the end of a life.
    fn start(&self, life: Life) -> Result<(), PowerCut> {
        let world = &self.world;
        let settings = settings();
        let recovery = world.run_blocking(|| recover(Path::new(DATA), &settings))?;
        world.end_misread();
        let Ok(recovery) = recovery else {
            let expected = matches!(life.end, End::Failure | End::Misread);
            assert!(expected, "recovery fails by itself");
            self.outcome.borrow_mut().failures += 1;
            return Ok(());
        };
        let (ghost, outcome) = (self.ghost.clone(), self.outcome.clone());
        let lived = world.run(live_once(world.clone(), ghost, outcome, recovery, life))?;
        self.outcome.borrow_mut().failures += u64::from(lived == Lived::Failed);
        Ok(())
    }

    /// Without faults all is there, twice the same.
    fn last_look(&self, plan: Plan) {
        let world = &self.world;
        world.set_faults(Faults {
            bug: plan.bug,
            ..Faults::default()
        });
        let life = Life {
            end: End::CleanStop,
            epoch: LeaderEpoch(plan.lives as i32),
            caches_lost: self.ghost.borrow().caches_lost,
            flushes_one_in: 1,
        };
        for _ in 0..2 {
            let found = world.run_blocking(|| recover(Path::new(DATA), &settings()));
            let recovery = found.expect("no power cut").expect("no fault");
            let (ghost, reactor_world) = (self.ghost.clone(), world.clone());
            let looked = world.run(async move {
                let opened = Storage::open(&Reactor, Path::new(DATA), 0, settings()).await;
                let storage = opened.expect("no fault");
                let attached = attach(&reactor_world, &storage, &ghost, recovery, life);
                attached.await.expect("no fault");
            });
            looked.expect("no power cut");
            world.power_cut(Survival::All);
        }
    }

    /// Somebody deletes what can be made again (invariant 31), some of it.
    fn lose_caches(&self) {
        let world = &self.world;
        let lost = || -> std::io::Result<()> {
            for directory in fs::read_dir(format!("{DATA}/logs"))? {
                let directory = directory?.path();
                for file in fs::read_dir(&directory)? {
                    let path = file?.path();
                    let is = |part: Option<&std::ffi::OsStr>, of: &[&str]| {
                        of.iter().any(|it| part.is_some_and(|part| part == *it))
                    };
                    let cache =
                        is(path.file_name(), &CACHES) || is(path.extension(), &CACHE_ENDINGS);
                    if cache && world.one_in(2) {
                        fs::remove_file(&path)?;
                    }
                }
                fs::File::open(&directory)?.sync_all()?;
            }
            Ok(())
        };
        world.set_faults(Faults::default());
        let lost = world.run_blocking(lost).expect("no power cut");
        // The first life may have left nothing at all.
        drop(lost);
    }
}
