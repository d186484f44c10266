//! Which keys records have: none, uniform, zipf, or a few hot ones. Knows nothing of partitions: a
//! key's partition is the partitioner's choice.

use fastrand::Rng;

use super::quantity;

/// How keys are distributed.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyChoice {
    /// Records have no key.
    None,
    /// Each of `keys` keys is as likely as the other.
    Uniform { keys: u64 },
    /// The k-th most frequent key is `1 / k^exponent` as frequent as the first.
    Zipf { keys: u64, exponent: f64 },
    /// `share` of the records have one of `hot` keys, the others any of `keys`.
    Hot { share: f64, hot: u64, keys: u64 },
}

/// What may be written for a [`KeyChoice`].
pub const FORMS: &str = "none, uniform(KEYS), zipf(KEYS, EXPONENT) or hot(SHARE, HOT KEYS, KEYS)";

impl KeyChoice {
    /// Reads one of [`FORMS`].
    ///
    /// # Errors
    /// What would be right instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, arguments) = quantity::call(text)?;
        let keys = |text: &str| match quantity::count(text)? {
            0 => Err("there must be at least one key".to_owned()),
            keys => Ok(keys),
        };
        match (name, &*arguments) {
            ("none", []) => Ok(Self::None),
            ("uniform", [n]) => Ok(Self::Uniform { keys: keys(n)? }),
            ("zipf", [n, exponent]) => Ok(Self::Zipf {
                keys: keys(n)?,
                exponent: exponent
                    .parse()
                    .ok()
                    .filter(|exponent| (0.01..=10.0).contains(exponent))
                    .ok_or("zipf's exponent must be between 0.01 and 10")?,
            }),
            ("hot", [share, hot, n]) => Ok(Self::Hot {
                share: quantity::share(share)?,
                hot: keys(hot)?,
                keys: keys(n)?,
            }),
            _ => Err(format!("must be {FORMS}, not {text:?}")),
        }
    }
}

/// Draws keys, and writes them.
#[derive(Clone, Debug)]
pub struct Keys {
    choice: KeyChoice,
    zipf: Option<Zipf>,
    rng: Rng,
    text: Vec<u8>,
}

impl Keys {
    /// Keys as chosen; the same seed draws the same keys.
    pub fn new(choice: &KeyChoice, seed: u64) -> Self {
        let zipf = match choice {
            KeyChoice::Zipf { keys, exponent } => Some(Zipf::new(*keys, *exponent)),
            _ => None,
        };
        Self {
            choice: choice.clone(),
            zipf,
            rng: Rng::with_seed(seed),
            text: Vec::with_capacity(24),
        }
    }

    /// The next key's number, counted from 0; `None` when records have no key.
    pub fn draw(&mut self) -> Option<u64> {
        match &self.choice {
            KeyChoice::None => None,
            KeyChoice::Uniform { keys } => Some(self.rng.u64(0..*keys)),
            KeyChoice::Zipf { .. } => {
                let zipf = self.zipf.as_ref().expect("made with the choice");
                Some(zipf.draw(&mut self.rng) - 1)
            }
            KeyChoice::Hot { share, hot, keys } => {
                if self.rng.f64() < *share {
                    Some(self.rng.u64(0..*hot))
                } else {
                    Some(self.rng.u64(0..*keys))
                }
            }
        }
    }

    /// The next key as bytes.
    pub fn next_key(&mut self) -> Option<&[u8]> {
        use std::io::Write;
        let number = self.draw()?;
        self.text.clear();
        write!(self.text, "key-{number:08}").expect("writing to memory succeeds");
        Some(&self.text)
    }
}

/// Zipf by rejection from the integral of its density (Hoermann and Derflinger 1996): constant
/// memory for any number of keys.
#[derive(Clone, Debug)]
struct Zipf {
    keys: f64,
    exponent: f64,
    /// The integral up to the first key, whose own mass is exact.
    low: f64,
    /// The integral up to the last key.
    high: f64,
    /// Below this distance a candidate is taken without a look at the density.
    squeeze: f64,
}

impl Zipf {
    fn new(keys: u64, exponent: f64) -> Self {
        let mut zipf = Self {
            keys: keys as f64,
            exponent,
            low: 0.0,
            high: 0.0,
            squeeze: 0.0,
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.keys + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// A rank between 1 and the number of keys.
    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let at = self.high + rng.f64() * (self.low - self.high);
            let x = self.inverse(at);
            let rank = x.round().clamp(1.0, self.keys);
            let taken =
                rank - x <= self.squeeze || at >= self.integral(rank + 0.5) - self.density(rank);
            if taken {
                return rank as u64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        // Near an exponent of 1 the integral is the logarithm.
        let factor = if power.abs() > 1e-8 {
            power.exp_m1() / power
        } else {
            1.0 + power / 2.0
        };
        factor * log
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.exponent)).max(-1.0);
        let factor = if power.abs() > 1e-8 {
            power.ln_1p() / power
        } else {
            1.0 - power / 2.0
        };
        (factor * area).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 7;

    fn frequencies(form: &str, keys: usize, draws: u32) -> Vec<f64> {
        let choice = KeyChoice::parse(form).expect("a known form");
        let mut drawn = Keys::new(&choice, SEED);
        let mut counts = vec![0.0; keys];
        for _ in 0..draws {
            let key = drawn.draw().expect("a key");
            counts[usize::try_from(key).expect("small")] += 1.0 / f64::from(draws);
        }
        counts
    }

    #[test]
    fn zipf_keys_have_the_frequencies_of_the_law() {
        for exponent in [0.8, 1.0, 1.2] {
            let found = frequencies(&format!("zipf(100, {exponent})"), 100, 400_000);
            let weight = |rank: f64| rank.powf(-exponent);
            let total: f64 = (1..=100).map(|rank| weight(f64::from(rank))).sum();
            for rank in [1_u8, 2, 3, 10, 50, 100] {
                let expected = weight(f64::from(rank)) / total;
                let got = found[usize::from(rank) - 1];
                let off = (got / expected - 1.0).abs();
                assert!(
                    off < 0.08,
                    "seed {SEED}, exponent {exponent}, rank {rank}: {got} for {expected}"
                );
            }
        }
    }

    #[test]
    fn hot_keys_take_their_share() {
        let found = frequencies("hot(0.5, 1, 1000)", 1000, 200_000);
        assert!(
            (found[0] - 0.5005).abs() < 0.01,
            "seed {SEED}: {}",
            found[0]
        );
        assert!(found[1..].iter().all(|share| *share < 0.002), "seed {SEED}");
    }

    #[test]
    fn the_same_seed_draws_the_same_keys() {
        let choice = KeyChoice::parse("uniform(1M)").expect("a known form");
        let draw = |seed| {
            let mut keys = Keys::new(&choice, seed);
            (0..5).map(|_| keys.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn an_unknown_distribution_is_answered_with_the_known_ones() {
        let refused = KeyChoice::parse("gauss(3)").expect_err("no such distribution");
        assert!(refused.contains("zipf(KEYS, EXPONENT)"), "{refused}");
        assert!(KeyChoice::parse("uniform(0)").is_err());
        assert!(KeyChoice::parse("zipf(10)").is_err());
    }
}
