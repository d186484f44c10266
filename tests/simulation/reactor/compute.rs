//! Work that takes a core for long: the reactor's `compute` by name and meaning.

use crate::world::{Reactor, yield_now};

/// Does `work` at some later time and gives what it returns.
pub async fn elsewhere<T: Send + 'static>(
    _reactor: &Reactor,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    yield_now().await;
    work()
}
