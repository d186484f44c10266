//! The fields of a record's key or value, read and written in order. Knows nothing of what they mean.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The bytes do not follow the format that their version names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the record does not follow the format of __consumer_offsets")
    }
}

impl std::error::Error for Malformed {}

/// What is left to read. What it hands out keeps nothing of the source's buffer.
pub(super) struct Fields {
    rest: Bytes,
    flexible: bool,
}

impl Fields {
    pub(super) fn new(bytes: &Bytes) -> Self {
        Self {
            rest: bytes.clone(),
            flexible: false,
        }
    }

    /// Reads the version, on which depends how the rest is written.
    pub(super) fn version(&mut self, max: i16, first_flexible: i16) -> Result<i16, Malformed> {
        let version = self.i16()?;
        self.flexible = version >= first_flexible;
        if (0..=max).contains(&version) {
            Ok(version)
        } else {
            Err(Malformed)
        }
    }

    pub(super) fn i16(&mut self) -> Result<i16, Malformed> {
        self.rest.try_get_i16().map_err(|_| Malformed)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Malformed> {
        self.rest.try_get_i32().map_err(|_| Malformed)
    }

    pub(super) fn i64(&mut self) -> Result<i64, Malformed> {
        self.rest.try_get_i64().map_err(|_| Malformed)
    }

    pub(super) fn string(&mut self) -> Result<String, Malformed> {
        self.nullable_string()?.ok_or(Malformed)
    }

    pub(super) fn nullable_string(&mut self) -> Result<Option<String>, Malformed> {
        let length = if self.flexible {
            self.compact()?
        } else {
            usize::try_from(self.i16()?).ok()
        };
        let Some(length) = length else {
            return Ok(None);
        };
        let text = self.take(length)?.to_vec();
        String::from_utf8(text).map(Some).map_err(|_| Malformed)
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, Malformed> {
        let length = self.count()?;
        Ok(Bytes::copy_from_slice(&self.take(length)?))
    }

    /// The length of an array or of bytes.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        if self.flexible {
            return self.compact()?.ok_or(Malformed);
        }
        usize::try_from(self.i32()?).map_err(|_| Malformed)
    }

    /// Passes over tagged fields; the formats that are written here have none.
    pub(super) fn tags(&mut self) -> Result<(), Malformed> {
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.varint()? {
            self.varint()?;
            let length = self.varint()?;
            self.take(length as usize)?;
        }
        Ok(())
    }

    fn take(&mut self, length: usize) -> Result<Bytes, Malformed> {
        if length > self.rest.len() {
            return Err(Malformed);
        }
        Ok(self.rest.split_to(length))
    }

    /// A compact length: one more than it is, 0 for null.
    fn compact(&mut self) -> Result<Option<usize>, Malformed> {
        Ok(self.varint()?.checked_sub(1).map(|length| length as usize))
    }

    fn varint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0;
        for shift in (0..u32::BITS).step_by(7) {
            let byte = self.rest.try_get_u8().map_err(|_| Malformed)?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }
}

pub(super) fn put_string(out: &mut BytesMut, text: &str) -> Option<()> {
    out.put_i16(i16::try_from(text.len()).ok()?);
    out.put_slice(text.as_bytes());
    Some(())
}

pub(super) fn put_nullable(out: &mut BytesMut, text: Option<&str>) -> Option<()> {
    match text {
        Some(text) => put_string(out, text),
        None => {
            out.put_i16(-1);
            Some(())
        }
    }
}

pub(super) fn put_bytes(out: &mut BytesMut, bytes: &Bytes) -> Option<()> {
    out.put_i32(i32::try_from(bytes.len()).ok()?);
    out.put_slice(bytes);
    Some(())
}
