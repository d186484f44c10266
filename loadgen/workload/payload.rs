//! How large records are and how well they compress. Knows nothing of what a record says of itself
//! (see `envelope`), save how many bytes that takes.

use fastrand::Rng;

use super::quantity;
use crate::envelope;

/// The largest value of one record: what a broker takes by default is 1 MiB, tests go beyond.
pub const BYTES_MAX: u64 = 64 << 20;

/// How sizes are distributed. Every size is at least [`envelope::BYTES`] and at most [`BYTES_MAX`].
#[derive(Clone, Debug, PartialEq)]
pub enum SizeChoice {
    /// All the same.
    Fixed(usize),
    /// Each size between two, both included.
    Uniform { min: usize, max: usize },
    /// Log-normal around a median, cut off at the maximum.
    LogNormal {
        median: usize,
        sigma: f64,
        max: usize,
    },
    /// Sizes with their weights.
    Weighted(Vec<(usize, f64)>),
}

/// What may be written for a [`SizeChoice`].
pub const FORMS: &str =
    "SIZE, uniform(MIN, MAX), lognormal(MEDIAN, SIGMA, MAX) or weighted(SIZE:WEIGHT, ...)";

impl SizeChoice {
    /// Reads one of [`FORMS`].
    ///
    /// # Errors
    /// What would be right instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, arguments) = quantity::call(text)?;
        match (name, &*arguments) {
            ("uniform", [min, max]) => {
                let (min, max) = (size(min)?, size(max)?);
                if min > max {
                    return Err(format!("the minimum of {text} is above its maximum"));
                }
                Ok(Self::Uniform { min, max })
            }
            ("lognormal", [median, sigma, max]) => Ok(Self::LogNormal {
                median: size(median)?,
                sigma: sigma
                    .parse()
                    .ok()
                    .filter(|sigma| (0.0..=5.0).contains(sigma))
                    .ok_or("lognormal's sigma must be between 0 and 5")?,
                max: size(max)?,
            }),
            ("weighted", [_, ..]) => {
                let weighted: Result<_, String> = arguments.iter().copied().map(weighted).collect();
                Ok(Self::Weighted(weighted?))
            }
            (_, []) if text.trim().starts_with(|c: char| c.is_ascii_digit()) => {
                Ok(Self::Fixed(size(text)?))
            }
            _ => Err(format!("must be {FORMS}, not {text:?}")),
        }
    }

    /// The largest size that can be drawn.
    pub fn largest(&self) -> usize {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { max, .. } | Self::LogNormal { max, .. } => *max,
            Self::Weighted(sizes) => sizes.iter().map(|(size, _)| *size).max().unwrap_or(0),
        }
    }

    /// The size of the next record's value.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { min, max } => rng.usize(*min..=*max),
            Self::LogNormal { median, sigma, max } => {
                let size = *median as f64 * (sigma * normal(rng)).exp();
                (size as usize).clamp(envelope::BYTES, *max)
            }
            Self::Weighted(sizes) => {
                let total: f64 = sizes.iter().map(|(_, weight)| weight).sum();
                let mut at = rng.f64() * total;
                for (size, weight) in sizes {
                    at -= weight;
                    if at < 0.0 {
                        return *size;
                    }
                }
                self.largest()
            }
        }
    }
}

fn size(text: &str) -> Result<usize, String> {
    let bytes = quantity::bytes(text)?;
    let least = envelope::BYTES as u64;
    if (least..=BYTES_MAX).contains(&bytes) {
        Ok(bytes as usize)
    } else {
        Err(format!(
            "a record's value must be between {least} B (what a record says of itself) and 64 MiB, \
             not {text}"
        ))
    }
}

fn weighted(text: &str) -> Result<(usize, f64), String> {
    let (bytes, weight) = text
        .split_once(':')
        .ok_or_else(|| format!("{text:?} is not SIZE:WEIGHT"))?;
    let weight = weight.trim().parse::<f64>().ok();
    let weight = weight.filter(|weight| *weight > 0.0 && weight.is_finite());
    let weight = weight.ok_or_else(|| format!("the weight of {text:?} must be above 0"))?;
    Ok((size(bytes)?, weight))
}

/// A standard normal deviate (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Content to cut values from, so that sending a record costs no generation of it.
#[derive(Clone, Debug)]
pub struct Pool {
    bytes: Vec<u8>,
    slack: usize,
    rng: Rng,
}

/// A stretch of the pool: some of it random, the rest zeros.
const STRETCH_BYTES: usize = 256;
/// Content beyond the largest value, from which a value's place is drawn. Where batches are compressed,
/// values that overlap would be found alike and removed; where they are not, the content had better stay
/// in the processor's cache, for reading it from memory costs more than all else that is done for a value.
const SLACK_BYTES: usize = 64 << 10;
const SLACK_COMPRESSED_BYTES: usize = 1 << 20;

impl Pool {
    /// Content of which about `compressibility` is what a compressor removes (0 is incompressible),
    /// enough for values of `largest` bytes, for batches that are compressed or not.
    pub fn new(largest: usize, compressibility: f64, is_compressed: bool, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let slack = match is_compressed {
            true => SLACK_COMPRESSED_BYTES,
            false => SLACK_BYTES,
        };
        let mut bytes = vec![0; largest + slack];
        let random = (STRETCH_BYTES as f64 * (1.0 - compressibility)).round() as usize;
        for stretch in bytes.chunks_mut(STRETCH_BYTES) {
            let random = random.min(stretch.len());
            rng.fill(&mut stretch[..random]);
        }
        Self { bytes, slack, rng }
    }

    /// A value of this size, to be overwritten at its front with what the record says of itself.
    pub fn cut(&mut self, size: usize) -> &mut [u8] {
        let at = self.rng.usize(0..self.slack);
        &mut self.bytes[at..at + size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 11;

    fn drawn(form: &str) -> Vec<usize> {
        let choice = SizeChoice::parse(form).expect("a known form");
        let mut rng = Rng::with_seed(SEED);
        (0..20_000).map(|_| choice.draw(&mut rng)).collect()
    }

    #[test]
    fn sizes_follow_their_distribution() {
        assert!(drawn("1KiB").iter().all(|size| *size == 1024));
        let uniform = drawn("uniform(100, 200)");
        assert_eq!(
            (uniform.iter().min(), uniform.iter().max()),
            (Some(&100), Some(&200))
        );
        let mut normal = drawn("lognormal(1KiB, 0.5, 64KiB)");
        normal.sort_unstable();
        let median = normal[normal.len() / 2];
        assert!((980..1070).contains(&median), "seed {SEED}: {median}");
        let p84 = normal[normal.len() * 8_413 / 10_000] as f64 / 1024.0;
        assert!((p84.ln() - 0.5).abs() < 0.04, "seed {SEED}: {p84}");
        let large = drawn("weighted(100B:90, 64KiB:10)");
        let large = large.iter().filter(|size| **size == 65_536).count();
        assert!((1_850..2_150).contains(&large), "seed {SEED}: {large}");
    }

    #[test]
    fn a_value_has_room_for_what_the_record_says_of_itself() {
        let refused = SizeChoice::parse("8B").expect_err("no room");
        assert!(refused.contains(&envelope::BYTES.to_string()), "{refused}");
        assert!(SizeChoice::parse("1TiB").is_err());
        assert!(SizeChoice::parse("uniform(2KiB, 1KiB)").is_err());
    }

    #[test]
    fn content_compresses_by_as_much_as_was_asked_for() {
        for asked in [0.0, 0.3, 0.6, 0.9] {
            let mut pool = Pool::new(64 << 10, asked, true, SEED);
            let value = pool.cut(64 << 10).to_vec();
            for codec in [wire::Compression::Lz4, wire::Compression::Zstd] {
                let mut batch = wire::records::BatchBuilder::new(codec);
                batch.push(0, None, Some(&value), &[]);
                let packed = batch.finish().expect("compressible").len();
                let removed = 1.0 - packed as f64 / value.len() as f64;
                assert!(
                    (removed - asked).abs() < 0.06,
                    "seed {SEED}, {codec:?}: {removed:.3} removed of {asked}"
                );
            }
        }
    }
}
