//! Puts a cleaned segment in the place of those it was made of, step by step as `logic` says, and
//! finishes at the start what a crash left in the middle.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use logic::ids::Offset;
use logic::log::cleaning::swap::{CLEANED, ENDINGS, SWAP, Step, decode, encode, rest};
use logic::log::segment::Segment;
use reactor::blocking::fs;
use reactor::file;

use super::super::append::{LogState, segment_path};
use super::super::serve::Page;
use super::super::state::Shared;
use super::super::{StorageError, behind, place, removal};

/// Carries out the steps of a swap; `false` when some of those replaced are gone meanwhile, and the
/// copy is thrown away.
pub(super) async fn carry_out(
    shared: &Rc<Shared>,
    log: &LogState,
    replaced: &[Offset],
    segment: Segment,
    steps: &[Step],
) -> Result<bool, StorageError> {
    if !behind::lock(shared, log).await {
        return Err(StorageError::Closed);
    }
    let base = segment.base;
    let mut segment = Some(segment);
    let mut page = None;
    let mut result = Ok(true);
    let mut decided = false;
    for step in steps {
        let done = match *step {
            Step::Switch => {
                let copy = segment.take().zip(page.take());
                Ok(switch(shared, log, replaced, copy))
            }
            // After the decision nothing may fail for want of a descriptor.
            Step::Decide => match Page::open(shared, &named(log, base, "log", SWAP)).await {
                Ok(opened) => {
                    page = Some(Rc::new(opened));
                    decided = true;
                    run(shared, log, replaced, *step).await.map(|()| true)
                }
                Err(error) => Err(error),
            },
            step => run(shared, log, replaced, step).await.map(|()| true),
        };
        match done {
            Ok(true) => {}
            Ok(false) => {
                result = undo(shared, log, base).await.map(|()| false);
                break;
            }
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    if result.is_ok() {
        log.swapping.replace(None);
    }
    behind::unlock(shared, log);
    if let (Err(error), true) = (&result, decided) {
        // Readers go on with the file that is open: under the segment's name may still be an old one.
        // Half done on disk: only a start can tell what is there.
        shared.fail(error);
    }
    result
}

/// A file of the segment, named by step.
fn named(log: &LogState, base: Offset, ending: &str, state: &str) -> PathBuf {
    log.segment_path(base, &format!("{ending}.{state}"))
}

async fn run(
    shared: &Rc<Shared>,
    log: &LogState,
    replaced: &[Offset],
    step: Step,
) -> Result<(), StorageError> {
    let base = *replaced.first().ok_or(StorageError::Closed)?;
    let reactor = &shared.reactor;
    let list = log.segment_path(base, SWAP);
    let done = match step {
        Step::Ready(ending) => {
            let from = named(log, base, ending, CLEANED);
            file::rename(reactor, &from, &named(log, base, ending, SWAP)).await
        }
        Step::Flush => file::sync_dir(reactor, &log.directory).await,
        Step::Decide => place::write_small(reactor, &list, &encode(replaced)).await,
        Step::Switch => unreachable!("the switch is made in memory"),
        Step::Retire(old) => return removal::segment(shared, log, old).await,
        Step::Settle(ending) => {
            let from = named(log, base, ending, SWAP);
            file::rename(reactor, &from, &log.segment_path(base, ending)).await
        }
        Step::Forget => file::remove(reactor, &list).await,
    };
    done.map_err(|source| StorageError::io("swap", &list, source))
}

/// Readers find the new segment from here on, by a file that is open already: its name is not its
/// own yet.
fn switch(
    shared: &Rc<Shared>,
    log: &LogState,
    replaced: &[Offset],
    copy: Option<(Segment, Rc<Page>)>,
) -> bool {
    let Some(((mut segment, page), last)) = copy.zip(replaced.last()) else {
        return false;
    };
    let base = segment.base;
    segment.forget_index();
    if !log.log.borrow_mut().replace(replaced, segment) {
        return false;
    }
    log.generation.set(log.generation.get() + 1);
    let mut pages = log.pages.borrow_mut();
    pages.retain(|base, _| !replaced.contains(base));
    log.distrusted.borrow_mut().remove(&base);
    log.swapping.replace(Some((base, page)));
    // What memory holds of the old ones lies at other positions.
    let freed = {
        let mut tail = log.tail.borrow_mut();
        let before = tail.capacity();
        tail.drop_below(Offset(last.0 + 1));
        before - tail.capacity()
    };
    shared.tail_dropped(freed);
    true
}

/// Takes a decision back of which nothing was carried out.
async fn undo(shared: &Rc<Shared>, log: &LogState, base: Offset) -> Result<(), StorageError> {
    let list = log.segment_path(base, SWAP);
    let undone = async {
        file::remove(&shared.reactor, &list).await?;
        file::sync_dir(&shared.reactor, &log.directory).await?;
        for ending in ENDINGS {
            file::remove(&shared.reactor, &named(log, base, ending, SWAP)).await?;
        }
        Ok(())
    };
    undone
        .await
        .map_err(|source| StorageError::io("undo", &list, source))
}

/// Finishes what a crash left in a partition's directory, and removes what was never decided.
/// Blocking; done again from anywhere it comes to the same.
pub(in super::super) fn recover(directory: &Path) -> io::Result<()> {
    let (mut lists, mut others) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let ends = |wanted: &str| path.extension().is_some_and(|ending| ending == wanted);
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        if ends(SWAP) && stem.parse::<i64>().is_ok() {
            lists.push(path);
        } else if ends(SWAP) || ends(CLEANED) {
            others.push(path);
        }
    }
    for list in lists {
        let replaced = place::read_small(&list)?.and_then(|body| decode(&body));
        let names = |replaced: &Vec<Offset>| segment_path(directory, replaced[0], SWAP) == list;
        // It got its name when all of it was there: what it decided cannot be told any more.
        let Some(replaced) = replaced.filter(names) else {
            let what = format!("{} cannot be read", list.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        };
        let swapped = |ending| segment_path(directory, replaced[0], &format!("{ending}.{SWAP}"));
        let settled = !fs::exists(swapped("log"))?;
        for step in rest(&replaced, settled) {
            redo(directory, &list, &swapped, &replaced, step)?;
        }
    }
    for path in others {
        remove(&path)?;
    }
    Ok(())
}

fn redo(
    directory: &Path,
    list: &Path,
    swapped: &dyn Fn(&'static str) -> PathBuf,
    replaced: &[Offset],
    step: Step,
) -> io::Result<()> {
    match step {
        Step::Retire(old) => removal::ENDINGS
            .iter()
            .try_for_each(|ending| remove(&segment_path(directory, old, ending))),
        Step::Settle(ending) => {
            let to = segment_path(directory, replaced[0], ending);
            match fs::rename(swapped(ending), to) {
                // An index that was renamed before the crash.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                renamed => renamed,
            }
        }
        Step::Flush => place::sync_dir_blocking(directory),
        Step::Forget => remove(list),
        Step::Ready(_) | Step::Decide | Step::Switch => unreachable!("done before the decision"),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
