//! A batch read record by record and written again with some of them, as log cleaning does: offsets,
//! epoch and sequences stay what they were. Knows neither which records stay nor why.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Body, Cursor, Fields, RecordsError, VARINT_BYTES_MAX, put_varint, put_varlong};
use crate::batch::{self, BatchHeader, HEADER_BYTES};
use crate::compression::{Compression, Content, Unfolding};
use crate::folding::{self, Folding};

/// Position of the record count (4 bytes).
const RECORD_COUNT_AT: usize = 57;
/// Position of what record timestamps are relative to (8 bytes).
const BASE_TIMESTAMP_AT: usize = 27;

/// One record, as much of it as a cleaner looks at.
#[derive(Debug, Clone)]
pub struct RawRecord {
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// Null and empty differ.
    pub key: Option<Bytes>,
    /// Its value is null.
    pub is_tombstone: bool,
    timestamp_delta: i64,
    /// The record without its length.
    body: Bytes,
    /// Where in it the timestamp ends.
    rest_at: usize,
}

/// Reads the records of one batch, decompressing as it goes.
pub struct RawRecords {
    body: Body,
    remaining: u32,
}

impl RawRecords {
    /// Opens a whole batch. The checksum is not looked at.
    pub fn open(batch: &Bytes, unfolding: &Unfolding) -> Result<Self, RecordsError> {
        let header = BatchHeader::parse(batch).ok_or(RecordsError::NotABatch)?;
        let total = header.total_bytes().ok_or(RecordsError::NotABatch)?;
        if header.magic() != batch::MAGIC || total > batch.len() {
            return Err(RecordsError::NotABatch);
        }
        let compression = header.compression().ok_or(RecordsError::UnknownCodec)?;
        let content = batch.slice(HEADER_BYTES..total);
        Ok(Self {
            remaining: u32::try_from(header.record_count()).map_err(|_| RecordsError::Malformed)?,
            body: match Content::open(compression, content.clone(), unfolding)? {
                Some(content) => Body::Compressed(Box::new(content)),
                None => Body::Plain(content),
            },
        })
    }

    fn read(&mut self) -> Result<RawRecord, RecordsError> {
        let body = self.body.take_record()?;
        let fields = Fields::parse(&body)?;
        let mut cursor = Cursor::at(&body, 1);
        cursor.varlong()?;
        let rest_at = cursor.at;
        Ok(RawRecord {
            offset_delta: fields.offset_delta,
            key: fields.key.map(|key| body.slice(key)),
            is_tombstone: fields.value.is_none(),
            timestamp_delta: fields.timestamp_delta,
            body,
            rest_at,
        })
    }
}

impl Iterator for RawRecords {
    type Item = Result<RawRecord, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        let record = self.read();
        if record.is_err() {
            self.remaining = 0;
            self.body = Body::Failed;
        }
        Some(record)
    }
}

/// Writes a batch again with only these of its records, folded so; `delete_horizon` becomes what
/// its timestamps are relative to (KIP-534), if given. Without any record the header alone is left.
/// What nobody would be allowed to unfold again, so little is it, is not folded.
pub fn rewrite(
    batch: &Bytes,
    kept: &[RawRecord],
    folding: Folding,
    delete_horizon: Option<i64>,
) -> Result<Bytes, RecordsError> {
    let header = BatchHeader::parse(batch).ok_or(RecordsError::NotABatch)?;
    let old_base = header.base_timestamp();
    let new_base = delete_horizon.unwrap_or(old_base);
    let mut compression = if kept.is_empty() {
        Compression::None
    } else {
        folding.compression
    };
    let mut records = BytesMut::with_capacity(kept.iter().map(RawRecord::bytes_max).sum());
    for record in kept {
        record.write(&mut records, old_base.wrapping_sub(new_base));
    }
    let mut out = Vec::with_capacity(HEADER_BYTES + records.len());
    out.extend_from_slice(&batch[..HEADER_BYTES]);
    if compression != Compression::None {
        out = folding::fold(folding, &records, out).map_err(|_| RecordsError::Corrupt)?;
        if !Unfolding::default().allows(out.len() - HEADER_BYTES, records.len()) {
            out.truncate(HEADER_BYTES);
            compression = Compression::None;
        }
    }
    if compression == Compression::None {
        out.extend_from_slice(&records);
    }
    let length =
        i32::try_from(out.len() - batch::LENGTH_END).map_err(|_| RecordsError::TooLarge)?;
    let mut attributes = header.attributes() & !batch::CODEC_BITS | compression.attributes();
    if delete_horizon.is_some() {
        attributes |= batch::DELETE_HORIZON;
    }
    let newest = kept
        .iter()
        .map(|record| old_base.wrapping_add(record.timestamp_delta))
        .max();
    let max_timestamp = match newest {
        Some(newest) if !header.is_log_append_time() => newest,
        _ => header.max_timestamp(),
    };
    let count = i32::try_from(kept.len()).map_err(|_| RecordsError::TooLarge)?;
    batch::put(&mut out, batch::LENGTH_AT, length.to_be_bytes());
    batch::put(&mut out, batch::ATTRIBUTES_AT, attributes.to_be_bytes());
    batch::put(&mut out, BASE_TIMESTAMP_AT, new_base.to_be_bytes());
    batch::put(
        &mut out,
        batch::MAX_TIMESTAMP_AT,
        max_timestamp.to_be_bytes(),
    );
    batch::put(&mut out, RECORD_COUNT_AT, count.to_be_bytes());
    batch::set_crc(&mut out);
    Ok(out.into())
}

impl RawRecord {
    /// Bytes that it takes in a batch at most, unfolded.
    pub fn bytes_max(&self) -> usize {
        self.body.len() + 2 * VARINT_BYTES_MAX + super::VARLONG_BYTES_MAX
    }

    /// Writes it with its timestamp moved by so much.
    fn write(&self, out: &mut BytesMut, moved: i64) {
        if moved == 0 {
            put_varint(out, super::length_of(self.body.len()));
            out.put_slice(&self.body);
            return;
        }
        let delta = self.timestamp_delta.wrapping_add(moved);
        let rest = &self.body[self.rest_at..];
        let length = 1 + super::varlong_len(delta) + rest.len();
        put_varint(out, super::length_of(length));
        out.put_u8(self.body[0]);
        put_varlong(out, delta);
        out.put_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{BatchBuilder, Record, Records};

    fn batch(compression: Compression) -> Bytes {
        let mut builder = BatchBuilder::new(compression).producer(7, 1, 40);
        for at in 0..6_u8 {
            let value: Option<&[u8]> = (at % 3 > 0).then_some(b"value");
            builder.push(1_000 + i64::from(at), Some(&[at]), value, &[(b"h", None)]);
        }
        let mut batch = builder.finish().expect("a batch").to_vec();
        batch::stamp(&mut batch, 500, 3);
        batch.into()
    }

    fn raw(batch: &Bytes) -> Vec<RawRecord> {
        let records = RawRecords::open(batch, &Unfolding::default()).expect("opened");
        records.collect::<Result<_, _>>().expect("sound")
    }

    fn read(batch: &Bytes) -> Vec<Record> {
        assert!(batch::crc_matches(batch));
        let records = Records::open(batch, &Unfolding::default()).expect("opened");
        records.collect::<Result<_, _>>().expect("sound")
    }

    #[test]
    fn what_is_kept_keeps_its_offset_time_and_content_in_every_codec() {
        for from in Compression::ALL {
            for to in Compression::ALL {
                for horizon in [None, Some(9_999_999)] {
                    let old = batch(from);
                    let kept: Vec<RawRecord> = raw(&old)
                        .into_iter()
                        .filter(|record| record.offset_delta % 2 == 1)
                        .collect();
                    let new = rewrite(&old, &kept, to.into(), horizon).expect("written");
                    let mut expected = read(&old);
                    expected.retain(|record| record.offset_delta % 2 == 1);
                    assert_eq!(read(&new), expected, "{from:?} to {to:?}, {horizon:?}");
                    let header = BatchHeader::parse(&new).expect("a header");
                    assert_eq!(header.compression(), Some(to));
                    assert_eq!((header.base_offset(), header.last_offset()), (500, 505));
                    assert_eq!((header.leader_epoch(), header.base_sequence()), (3, 40));
                    assert_eq!(header.max_timestamp(), 1_005);
                    assert_eq!(header.total_bytes(), Some(new.len()));
                    let marked = header.attributes() & batch::DELETE_HORIZON != 0;
                    assert_eq!(marked, horizon.is_some());
                }
            }
        }
    }

    #[test]
    fn a_batch_without_records_is_a_header_that_says_where_it_was() {
        let old = batch(Compression::Zstd);
        let new = rewrite(&old, &[], Compression::Zstd.into(), None).expect("written");
        assert_eq!(new.len(), HEADER_BYTES);
        let header = BatchHeader::parse(&new).expect("a header");
        assert_eq!((header.record_count(), header.last_offset()), (0, 505));
        assert_eq!((header.producer_id(), header.producer_epoch()), (7, 1));
        assert_eq!(header.compression(), Some(Compression::None));
        assert!(read(&new).is_empty());
    }

    #[test]
    fn what_would_be_folded_beyond_what_may_be_unfolded_is_not() {
        let zeros = vec![0; 20 << 20];
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(1, Some(b"key"), Some(&zeros), &[]);
        let old = builder.finish().expect("a batch");
        let new = rewrite(&old, &raw(&old), Compression::Zstd.into(), None).expect("written");
        assert_eq!(read(&new), read(&old));
        let header = BatchHeader::parse(&new).expect("a header");
        assert_eq!(header.compression(), Some(Compression::None));
    }

    #[test]
    fn tombstones_and_keys_are_told() {
        let records = raw(&batch(Compression::Gzip));
        let tombstones: Vec<bool> = records.iter().map(|record| record.is_tombstone).collect();
        assert_eq!(tombstones, [true, false, false, true, false, false]);
        assert_eq!(records[4].key.as_deref(), Some(&[4][..]));
    }
}
