//! One member's way from what it has to what it is to have: it gives back first, and gets what is free.
//! Knows nothing of other members but which partitions are free.

use wire::group_records::{Assignment, CurrentValue, MemberState, TopicUuid};

/// What a member is to have, as of an epoch.
pub(super) struct Goal<'a> {
    pub(super) epoch: i32,
    pub(super) target: &'a Assignment,
}

/// The member's next state. `owned` is what it says that it has, where it says so: what it is to give
/// back counts as given back only when it is not in there. `is_free` is asked of partitions that it has
/// not: nobody else may have them, nor be about to give them back.
pub(super) fn reconcile(
    current: &CurrentValue,
    goal: &Goal<'_>,
    owned: Option<&Assignment>,
    is_free: impl Fn(TopicUuid, i32) -> bool,
) -> CurrentValue {
    match current.state {
        MemberState::Stable if current.epoch == goal.epoch => return current.clone(),
        MemberState::UnrevokedPartitions if holds(owned, &current.pending_revocation) => {
            return current.clone();
        }
        MemberState::Stable
        | MemberState::UnrevokedPartitions
        | MemberState::UnreleasedPartitions
        | MemberState::Unknown => {}
    }
    let (kept, to_revoke) = split(&current.assigned, goal.target);
    if holds(owned, &to_revoke) {
        let state = MemberState::UnrevokedPartitions;
        return moved(current, current.epoch, state, kept, to_revoke);
    }
    let (_, missing) = split(goal.target, &kept);
    let mut assigned = kept;
    let mut unreleased = false;
    for (topic, partitions) in missing {
        for index in partitions {
            if is_free(topic, index) {
                assigned.entry(topic).or_default().insert(index);
            } else {
                unreleased = true;
            }
        }
    }
    let state = if unreleased {
        MemberState::UnreleasedPartitions
    } else {
        MemberState::Stable
    };
    moved(current, goal.epoch, state, assigned, Assignment::new())
}

/// The next state, which is the same one when nothing has changed: the epoch before stays with it then.
fn moved(
    current: &CurrentValue,
    epoch: i32,
    state: MemberState,
    assigned: Assignment,
    pending_revocation: Assignment,
) -> CurrentValue {
    let mut next = CurrentValue {
        epoch,
        previous_epoch: current.previous_epoch,
        state,
        assigned,
        pending_revocation,
    };
    if next != *current {
        next.previous_epoch = current.epoch;
    }
    next
}

/// Whether a member may still have some of these partitions: it does not say what it has, or they are
/// in it.
fn holds(owned: Option<&Assignment>, partitions: &Assignment) -> bool {
    let Some(owned) = owned else {
        return !partitions.is_empty();
    };
    partitions.iter().any(|(topic, partitions)| {
        let same = owned.get(topic);
        same.is_some_and(|it| !it.is_disjoint(partitions))
    })
}

/// Whether all these partitions are among those.
pub(super) fn is_subset(partitions: &Assignment, of: &Assignment) -> bool {
    partitions.iter().all(|(topic, partitions)| {
        let same = of.get(topic);
        same.is_some_and(|it| partitions.is_subset(it))
    })
}

/// What is in both, and what is only in the first.
fn split(first: &Assignment, second: &Assignment) -> (Assignment, Assignment) {
    let (mut both, mut only) = (Assignment::new(), Assignment::new());
    for (topic, partitions) in first {
        let others = second.get(topic);
        let is_in_both = |index: &i32| others.is_some_and(|it| it.contains(index));
        let (shared, rest) = partitions.iter().partition(|it| is_in_both(it));
        both.insert(*topic, shared);
        only.insert(*topic, rest);
    }
    both.retain(|_, it| !it.is_empty());
    only.retain(|_, it| !it.is_empty());
    (both, only)
}
