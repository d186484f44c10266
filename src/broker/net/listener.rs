//! Accepts connections on one core and places each on the shard with the fewest. Knows nothing of
//! what is said on them.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use reactor::socket::Listener;

use crate::shard::Shard;
use crate::shard::gate::Gate;
use crate::shard::mail::{Mail, Placed};

/// How long accepting pauses when the process has no file descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Accepts until the shard stops.
pub async fn accept(shard: Rc<Shard>, listener: Listener, gate: Arc<Gate>) {
    let mut warned = false;
    loop {
        match listener.accept(&shard.reactor).await {
            Ok(accepted) => {
                if shard.stopping() {
                    return;
                }
                match gate.admit(accepted.peer.ip()) {
                    Ok(admitted) => {
                        let to = admitted.shard;
                        let (fd, peer, local) = (accepted.fd, accepted.peer, accepted.local);
                        shard.mail(
                            to,
                            Mail::Connection(Placed {
                                fd,
                                peer,
                                local,
                                admitted,
                            }),
                        );
                        warned = false;
                    }
                    Err(reason) => {
                        if !warned {
                            eprintln!("warning: connections are refused: {reason}");
                        }
                        warned = true;
                    }
                }
            }
            Err(error) => {
                if shard.stopping() {
                    return;
                }
                eprintln!("warning: cannot accept a connection: {error}; trying again");
                reactor::timer::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}
