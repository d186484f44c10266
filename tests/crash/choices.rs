//! Choices from a seed. Knows not what is chosen.

/// A linear congruential generator: the same choices from the same seed.
pub struct Choices(pub u64);

impl Choices {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
