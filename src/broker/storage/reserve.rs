//! The part of the disk that is never filled: what was acknowledged must still find room in its
//! segment. Says when free space is below it. Knows not who then stops writing.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::signal::Signal;
use super::state::Shared;

/// How often free space is looked at, and how often when the reserve is near.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_CLOSELY: Duration = Duration::from_millis(50);
/// More bytes than a disk loses between two looks, whatever the reserve.
const NEAR_BYTES: u64 = 3 << 30;
/// Space counts as enough again once there is an eighth more than the reserve, so that a disk at the
/// edge does not accept and refuse in turn.
const AGAIN_SHARE: u64 = 8;

/// Whether the disk is short of space.
#[derive(Default)]
pub(super) struct Reserve {
    low: Cell<bool>,
    /// It has become short, or enough.
    changed: Signal,
}

impl Reserve {
    /// Whether there is less free space than the reserve.
    pub fn is_low(&self) -> bool {
        self.low.get()
    }

    /// Waits until there is.
    pub async fn until_low(&self) {
        self.changed.until(|| self.low.get()).await;
    }

    /// Takes note of the free space; whether that changed anything.
    fn note(&self, free: u64, reserve: u64) -> bool {
        let low = if self.low.get() {
            free < reserve + reserve / AGAIN_SHARE
        } else {
            free < reserve
        };
        self.low.replace(low) != low
    }
}

/// Looks at the free space until the storage stops.
pub(super) async fn watch(shared: Rc<Shared>) {
    let reserve = shared.settings.disk_reserve_bytes;
    while reserve > 0 && !shared.closing.get() {
        let Ok(free) = reactor::blocking::free_bytes(&shared.data_dir) else {
            // Nothing is known, so nothing is refused: a write that fails will tell.
            reactor::timer::sleep(LOOK).await;
            continue;
        };
        if shared.reserve.note(free, reserve) {
            tell(&shared, free, reserve);
            shared.reserve.changed.notify();
        }
        let near = free.saturating_sub(reserve) < NEAR_BYTES;
        reactor::timer::sleep(if near { LOOK_CLOSELY } else { LOOK }).await;
    }
}

fn tell(shared: &Shared, free: u64, reserve: u64) {
    let (path, free, reserve) = (shared.data_dir.display(), free >> 20, reserve >> 20);
    if shared.reserve.is_low() {
        eprintln!(
            "error: {path} has {free} MiB left, less than the reserve of {reserve} MiB: produce is \
             refused until there is more"
        );
    } else {
        eprintln!("{path} has {free} MiB left: produce is accepted again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_at_the_edge_does_not_flap() {
        let reserve = Reserve::default();
        let seen: Vec<bool> = [900, 800, 799, 800, 899, 900, 800]
            .into_iter()
            .map(|free| {
                reserve.note(free, 800);
                reserve.is_low()
            })
            .collect();
        assert_eq!(seen, [false, false, true, true, true, false, false]);
    }
}
