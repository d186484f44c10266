//! The reactor's slices of a long task, of which each is as short as can be: others may run in between
//! whenever they might.

/// A long task's share of the turns.
pub struct Slice;

impl Slice {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self
    }

    pub async fn pass(&self) {
        crate::yield_now().await;
    }
}
