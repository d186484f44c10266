//! How many connections there are, where, and from whom. Knows nothing of what they say.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::mail::ShardId;

/// Counts connections over all shards and refuses those above the limits.
pub struct Gate {
    total_max: usize,
    per_address_max: usize,
    counts: Mutex<Counts>,
}

struct Counts {
    by_shard: Vec<usize>,
    by_address: HashMap<IpAddr, usize>,
}

/// One admitted connection; dropping it makes room.
pub struct Admitted {
    gate: Arc<Gate>,
    address: IpAddr,
    /// Where it was placed.
    pub shard: ShardId,
}

impl Gate {
    /// No connections yet. `total_max` is `max.connections`, `per_address_max` is
    /// `max.connections.per.ip`.
    pub fn new(shards: usize, total_max: usize, per_address_max: usize) -> Arc<Self> {
        let counts = Counts {
            by_shard: vec![0; shards],
            by_address: HashMap::new(),
        };
        Arc::new(Self {
            total_max,
            per_address_max,
            counts: Mutex::new(counts),
        })
    }

    /// Places one more connection on the shard with the fewest, or refuses it with the reason.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Admitted, String> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = counts.by_shard.iter().sum();
        if total >= self.total_max {
            return Err(format!("max.connections ({}) are open", self.total_max));
        }
        let from_address = counts.by_address.entry(address).or_default();
        if *from_address >= self.per_address_max {
            let limit = self.per_address_max;
            return Err(format!(
                "max.connections.per.ip ({limit}) are open from {address}"
            ));
        }
        *from_address += 1;
        let least = (0..counts.by_shard.len()).min_by_key(|shard| counts.by_shard[*shard]);
        let shard = least.expect("a broker has a shard");
        counts.by_shard[shard] += 1;
        Ok(Admitted {
            gate: self.clone(),
            address,
            shard: ShardId(shard),
        })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self
            .gate
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        counts.by_shard[self.shard.0] -= 1;
        if let Some(count) = counts.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_to_the_shard_with_the_fewest_and_limits_hold() {
        let gate = Gate::new(2, 3, 2);
        let (a, b): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let first = gate.admit(a).expect("room");
        let second = gate.admit(a).expect("room");
        assert_ne!(first.shard, second.shard);
        assert!(gate.admit(a).is_err(), "a third from one address");
        let third = gate.admit(b).expect("room");
        assert!(gate.admit(b).is_err(), "a fourth in all");
        let freed = first.shard;
        drop((first, third));
        let next = gate.admit(b).expect("room again");
        assert!(next.shard == freed || next.shard != second.shard);
    }
}
