//! A checked batch in another codec: the same records, byte for byte, under the same header. Knows not why it
//! should be in another.

use std::fmt;
use std::io;

use bytes::Bytes;

use super::RecordsError;
use crate::batch::{self, CheckedBatch, HEADER_BYTES};
use crate::compression::{Compression, Content, Unfolding};
use crate::folding::{Folder, Folding};

/// Why a batch is not in the other codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefoldError {
    /// There it would be larger than allowed.
    TooLarge,
    /// Its records do not unfold, or the codec fails.
    Records(RecordsError),
}

impl fmt::Display for RefoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("in the topic's codec the batch is too large"),
            Self::Records(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RefoldError {}

impl From<io::Error> for RefoldError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::FileTooLarge => Self::TooLarge,
            _ => Self::Records(RecordsError::Corrupt),
        }
    }
}

/// Bytes of the batch in another codec, at most.
pub fn bytes_max(batch: &CheckedBatch, folding: Folding) -> usize {
    HEADER_BYTES.saturating_add(folding.bytes_max(batch.unfolded_bytes))
}

/// Unfolds the records of a batch and folds them anew. Their bytes stay as they are, and so does the header but
/// for codec, length and checksum. The batch has `bytes_max` bytes at most, or is refused before it grows beyond.
///
/// It stays as it is where the other codec makes so little of it that nobody would be allowed to unfold it again.
pub fn refold(
    batch: &CheckedBatch,
    folding: Folding,
    unfolding: &Unfolding,
    bytes_max: usize,
) -> Result<Bytes, RefoldError> {
    let bytes_max = bytes_max.min(self::bytes_max(batch, folding));
    let mut out = Vec::with_capacity(bytes_max.min(HEADER_BYTES + batch.unfolded_bytes / 2));
    out.extend_from_slice(&batch.bytes[..HEADER_BYTES]);
    let mut folder = Folder::new(folding, out, bytes_max, batch.unfolded_bytes)?;
    let content = batch.bytes.slice(HEADER_BYTES..);
    match Content::open(batch.compression, content.clone(), unfolding) {
        Ok(None) => folder.write(&content)?,
        Ok(Some(mut content)) => {
            let fill = |content: &mut Content| {
                let filled = content.fill();
                filled.map_err(|error| RefoldError::Records(error.into()))
            };
            while fill(&mut content)? {
                folder.write(&content.window)?;
                content.window.clear();
            }
        }
        Err(error) => return Err(RefoldError::Records(error.into())),
    }
    let mut out = folder.finish()?;
    let is_folded = folding.compression != Compression::None;
    if is_folded && !unfolding.allows(out.len() - HEADER_BYTES, batch.unfolded_bytes) {
        return Ok(batch.bytes.clone());
    }
    // It is kept until it is on disk: not with the room in which it grew.
    out.shrink_to_fit();
    let length = i32::try_from(out.len() - batch::LENGTH_END).map_err(|_| RefoldError::TooLarge)?;
    let attributes = batch.attributes & !batch::CODEC_BITS | folding.compression.attributes();
    batch::put(&mut out, batch::LENGTH_AT, length.to_be_bytes());
    batch::put(&mut out, batch::ATTRIBUTES_AT, attributes.to_be_bytes());
    batch::set_crc(&mut out);
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchHeader, Limits, check};
    use crate::records::{BatchBuilder, Record, Records};

    /// Every level that Kafka knows, or some of them where they are many.
    fn foldings() -> Vec<Folding> {
        let levels = |compression, levels: &[i32]| {
            let at = |level: &i32| Folding::at_level(compression, *level);
            levels.iter().map(at).collect::<Vec<_>>()
        };
        let lz4: Vec<i32> = (1..=17).collect();
        let mut all: Vec<Folding> = Compression::ALL.map(Folding::from).into();
        all.extend(levels(Compression::Gzip, &[-1, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
        all.extend(levels(Compression::Lz4, &lz4));
        all.extend(levels(
            Compression::Zstd,
            &[-131_072, -1, 1, 2, 7, 12, 19, 22],
        ));
        all
    }

    /// Records of every shape, more bytes of them than the block of any codec.
    fn batch(compression: Compression, times: &[i64]) -> CheckedBatch {
        let mut builder = BatchBuilder::new(compression)
            .producer(7, 1, 40)
            .transactional();
        let long: Vec<u8> = (0..200_000_u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 27) as u8)
            .collect();
        for (at, time) in times.iter().enumerate() {
            let key = [at as u8];
            let key = (at % 3 > 0).then_some(&key[..]);
            let value = match at % 4 {
                0 => None,
                1 => Some(&long[..]),
                2 => Some(&[][..]),
                _ => Some(&b"a value like any other, any other, any other"[..]),
            };
            builder.push(*time, key, value, &[(b"h", None), (b"h", Some(b"x"))]);
        }
        let built = builder.finish().expect("a batch");
        let [checked] = check(&built, &Limits::default())
            .expect("sound")
            .try_into()
            .expect("one batch");
        checked
    }

    fn read(batch: &Bytes) -> Vec<Record> {
        assert!(batch::crc_matches(batch));
        let records = Records::open(batch, &Unfolding::default()).expect("opened");
        records.collect::<Result<_, _>>().expect("sound")
    }

    fn refolded(batch: &CheckedBatch, to: Folding) -> Result<Bytes, RefoldError> {
        refold(batch, to, &Unfolding::default(), usize::MAX)
    }

    #[test]
    fn in_any_other_codec_and_level_each_record_is_the_same_bytes_under_the_same_header() {
        for from in Compression::ALL {
            let old = batch(from, &[1_000, 999, 5_000, -1, 1_001, 0, i64::MAX / 2]);
            let plain = refolded(&old, Compression::None.into()).expect("unfolded");
            for to in foldings() {
                let new = refolded(&old, to).expect("folded");
                assert_eq!(read(&new), read(&old.bytes), "{from:?} to {to:?}");
                let [checked] = check(&new, &Limits::default())
                    .expect("sound")
                    .try_into()
                    .expect("one batch");
                let same_but_for_codec = CheckedBatch {
                    bytes: old.bytes.clone(),
                    compression: from,
                    attributes: old.attributes,
                    ..checked
                };
                assert_eq!(same_but_for_codec, old, "{from:?} to {to:?}");
                let header = BatchHeader::parse(&new).expect("a header");
                assert_eq!(header.compression(), Some(to.compression));
                assert_eq!(header.total_bytes(), Some(new.len()));
                let back = CheckedBatch {
                    bytes: new,
                    compression: to.compression,
                    ..old.clone()
                };
                let back = refolded(&back, Compression::None.into()).expect("unfolded");
                assert_eq!(back, plain, "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn what_grows_beyond_the_bound_is_refused_at_the_last_byte_and_not_before() {
        for to in foldings() {
            let old = batch(Compression::Zstd, &[1; 30]);
            let whole = refolded(&old, to).expect("folded").len();
            assert!(whole <= bytes_max(&old, to), "{to:?}");
            let within = |bytes| refold(&old, to, &Unfolding::default(), bytes);
            assert_eq!(within(whole).map(|new| new.len()), Ok(whole), "{to:?}");
            assert_eq!(within(whole - 1), Err(RefoldError::TooLarge), "{to:?}");
        }
    }

    #[test]
    fn what_cannot_be_compressed_stays_within_what_was_promised() {
        let mut state = 1_u64;
        let mut byte = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        for bytes in [0, 1, 100, 70_000, 300_000] {
            let value: Vec<u8> = (0..bytes).map(|_| byte()).collect();
            let mut builder = BatchBuilder::new(Compression::None);
            builder.push(1, None, Some(&value), &[]);
            let built = builder.finish().expect("a batch");
            let [old] = check(&built, &Limits::default())
                .expect("sound")
                .try_into()
                .expect("one batch");
            for to in foldings() {
                assert!(refolded(&old, to).is_ok(), "{bytes} in {to:?}");
            }
        }
    }

    #[test]
    fn what_would_be_folded_beyond_what_may_be_unfolded_stays_as_it_is() {
        let zeros = vec![0; 20 << 20];
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(1, None, Some(&zeros), &[]);
        let [old] = check(&builder.finish().expect("a batch"), &Limits::default())
            .expect("sound")
            .try_into()
            .expect("one batch");
        for to in Compression::ALL {
            let new = refolded(&old, to.into()).expect("folded or left");
            assert!(check(&new, &Limits::default()).is_ok(), "{to:?}");
        }
        assert_eq!(refolded(&old, Compression::Zstd.into()), Ok(old.bytes));
    }

    #[test]
    fn more_effort_makes_less_of_text() {
        let words = ["order", "customer", "shipped", "amount", "carrier", "null"];
        let mut state = 1_u64;
        let mut text = String::new();
        while text.len() < 300_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text += words[(state >> 33) as usize % words.len()];
            text += &(state >> 52).to_string();
        }
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(1, None, Some(text.as_bytes()), &[]);
        let [old] = check(&builder.finish().expect("a batch"), &Limits::default())
            .expect("sound")
            .try_into()
            .expect("one batch");
        for (compression, least, most) in [
            (Compression::Gzip, 1, 9),
            (Compression::Lz4, 9, 17),
            (Compression::Zstd, 1, 19),
        ] {
            let len = |level| {
                let folding = Folding::at_level(compression, level);
                refolded(&old, folding).expect("folded").len()
            };
            assert!(len(most) < len(least), "{compression:?}");
        }
    }
}
