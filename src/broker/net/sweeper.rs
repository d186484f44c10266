//! The connections of one shard, and the task that ends those whose deadline has passed. Knows
//! nothing of why a deadline was set.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::connection::Connection;
use crate::shard::Shard;
use crate::shard::mail::Placed;

/// How late a deadline may be noticed.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The live connections of one shard.
#[derive(Default)]
pub struct Connections {
    live: RefCell<Vec<Weak<Connection>>>,
}

impl Connections {
    /// Serves a placed connection until it ends.
    pub fn serve(&self, shard: &Rc<Shard>, placed: Placed) {
        let peer = placed.peer;
        match Connection::new(shard.clone(), placed) {
            Ok(connection) => {
                self.live.borrow_mut().push(Rc::downgrade(&connection));
                reactor::spawn(connection.run());
            }
            Err(error) => eprintln!("warning: connection from {peer} not served: {error}"),
        }
    }

    /// Ends late connections until the shard stops, then waits for owed replies and ends the rest.
    pub async fn sweep(self: Rc<Self>, shard: Rc<Shard>) {
        while !shard.stopping() {
            reactor::timer::sleep(SWEEP_EVERY).await;
            let now = reactor::timer::monotonic_nanos();
            self.each(|connection| connection.sweep(now));
        }
    }

    /// Ends every connection that is owed no reply; returns how many are left.
    pub fn close_drained(&self) -> usize {
        let mut owed = 0;
        self.each(|connection| {
            if connection.drained() {
                connection.close();
            } else {
                owed += 1;
            }
        });
        owed
    }

    fn each(&self, mut visit: impl FnMut(&Connection)) {
        self.live
            .borrow_mut()
            .retain(|connection| match connection.upgrade() {
                Some(connection) => {
                    visit(&connection);
                    true
                }
                None => false,
            });
    }
}
