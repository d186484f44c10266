//! What each record says of itself, at the front of its value: who sent it, as which one, when it was
//! due, and a checksum. Knows nothing of Kafka.

/// The length of an envelope.
pub const BYTES: usize = 40;

/// The first bytes, so that a foreign record is told from a damaged one.
const MAGIC: u32 = 0x6c67_0001;
const CHECKSUM_AT: usize = 36;

/// What a record says of itself. The layout, big-endian: magic (4), run (8), producer (4), sequence (8), due
/// (8), checked (4), crc32c of all before and behind it (4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Which run sent it.
    pub run: u64,
    /// Which of the run's producers.
    pub producer: u32,
    /// As which of that producer's records, counted from 0.
    pub sequence: u64,
    /// When it was due, in nanoseconds of the run's clock.
    pub due_ns: u64,
}

/// Why a value is no record of the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is too short, or does not begin as ours do.
    Foreign,
    /// Its checksum is not that of its content.
    Corrupt,
}

/// How much of a value the checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The envelope alone: what a measurement can afford.
    Envelope,
    /// The whole value.
    Value,
}

impl Envelope {
    /// Writes the envelope over the front of a value and seals it.
    pub fn seal(&self, value: &mut [u8], check: Check) {
        let checked: u32 = match check {
            Check::Envelope => 0,
            Check::Value => u32::try_from(value.len() - BYTES).expect("values are below 4 GiB"),
        };
        let mut front = [0; CHECKSUM_AT];
        front[..4].copy_from_slice(&MAGIC.to_be_bytes());
        front[4..12].copy_from_slice(&self.run.to_be_bytes());
        front[12..16].copy_from_slice(&self.producer.to_be_bytes());
        front[16..24].copy_from_slice(&self.sequence.to_be_bytes());
        front[24..32].copy_from_slice(&self.due_ns.to_be_bytes());
        front[32..].copy_from_slice(&checked.to_be_bytes());
        let (envelope, rest) = value
            .split_first_chunk_mut::<BYTES>()
            .expect("sizes are checked when they are read");
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&front), &rest[..checked as usize]);
        envelope[..CHECKSUM_AT].copy_from_slice(&front);
        envelope[CHECKSUM_AT..].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Reads the envelope of a value, if its checksum is right.
    ///
    /// # Errors
    /// When it is not one of the generator's records any more.
    pub fn open(value: &[u8]) -> Result<Self, Unreadable> {
        if value.len() < BYTES {
            return Err(Unreadable::Foreign);
        }
        let checked = u32::from_be_bytes(field(value, 32)) as usize;
        let sealed = u32::from_be_bytes(field(value, CHECKSUM_AT));
        let whole = checked == 0 || checked == value.len() - BYTES;
        if !whole || checksum(value, checked) != sealed {
            let ours = u32::from_be_bytes(field(value, 0)) == MAGIC;
            return Err(if ours {
                Unreadable::Corrupt
            } else {
                Unreadable::Foreign
            });
        }
        if u32::from_be_bytes(field(value, 0)) != MAGIC {
            return Err(Unreadable::Foreign);
        }
        Ok(Self {
            run: u64::from_be_bytes(field(value, 4)),
            producer: u32::from_be_bytes(field(value, 12)),
            sequence: u64::from_be_bytes(field(value, 16)),
            due_ns: u64::from_be_bytes(field(value, 24)),
        })
    }
}

fn checksum(value: &[u8], checked: usize) -> u32 {
    let front = crc32c::crc32c(&value[..CHECKSUM_AT]);
    crc32c::crc32c_append(front, &value[BYTES..BYTES + checked])
}

fn field<const N: usize>(value: &[u8], at: usize) -> [u8; N] {
    value[at..at + N].try_into().expect("as long as it says")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Envelope = Envelope {
        run: 77,
        producer: 3,
        sequence: 12_345,
        due_ns: 9_876_543_210,
    };

    #[test]
    fn an_envelope_is_read_as_it_was_sealed() {
        for check in [Check::Envelope, Check::Value] {
            let mut value = vec![5; 100];
            SENT.seal(&mut value, check);
            assert_eq!(Envelope::open(&value), Ok(SENT));
        }
    }

    #[test]
    fn every_flipped_bit_of_a_checked_value_is_found() {
        let mut value = vec![5; 64];
        SENT.seal(&mut value, Check::Value);
        for bit in 0..value.len() * 8 {
            value[bit / 8] ^= 1 << (bit % 8);
            assert!(Envelope::open(&value).is_err(), "bit {bit}");
            value[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_foreign_value_is_not_called_damaged() {
        assert_eq!(Envelope::open(b"hello"), Err(Unreadable::Foreign));
        assert_eq!(Envelope::open(&[0; 200]), Err(Unreadable::Foreign));
    }

    #[test]
    fn a_value_that_lost_its_end_is_found() {
        let mut value = vec![5; 64];
        SENT.seal(&mut value, Check::Value);
        assert_eq!(Envelope::open(&value[..60]), Err(Unreadable::Corrupt));
    }
}
