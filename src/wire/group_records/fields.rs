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

    pub(super) fn i8(&mut self) -> Result<i8, Malformed> {
        self.rest.try_get_i8().map_err(|_| Malformed)
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

    pub(super) fn uuid(&mut self) -> Result<[u8; 16], Malformed> {
        let bytes = self.take(16)?;
        bytes[..].try_into().map_err(|_| Malformed)
    }

    /// Not reserved ahead: the count is only believed as far as there are bytes.
    pub(super) fn array<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let mut found = Vec::new();
        for _ in 0..self.count()? {
            found.push(one(self)?);
        }
        Ok(found)
    }

    /// The length of an array or of bytes.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        if self.flexible {
            return self.compact()?.ok_or(Malformed);
        }
        usize::try_from(self.i32()?).map_err(|_| Malformed)
    }

    /// Passes over tagged fields.
    pub(super) fn tags(&mut self) -> Result<(), Malformed> {
        if self.flexible {
            self.tag(u32::MAX)?;
        }
        Ok(())
    }

    /// Passes over tagged fields, and keeps the one that is wanted.
    pub(super) fn tag(&mut self, wanted: u32) -> Result<Option<Self>, Malformed> {
        let mut found = None;
        for _ in 0..self.varint()? {
            let tag = self.varint()?;
            let length = self.varint()?;
            let rest = self.take(length as usize)?;
            if tag == wanted {
                let flexible = self.flexible;
                found = Some(Self { rest, flexible });
            }
        }
        Ok(found)
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

/// The length of an array in a flexible version.
pub(super) fn put_count(out: &mut BytesMut, length: usize) {
    put_varint(out, u32::try_from(length).map_or(u32::MAX, |it| it + 1));
}

pub(super) fn put_array<T>(
    out: &mut BytesMut,
    items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    mut one: impl FnMut(&mut BytesMut, T),
) {
    let items = items.into_iter();
    put_count(out, items.len());
    items.for_each(|item| one(out, item));
}

pub(super) fn put_compact(out: &mut BytesMut, text: &str) {
    put_count(out, text.len());
    out.put_slice(text.as_bytes());
}

pub(super) fn put_compact_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.put_slice(bytes);
}

pub(super) fn put_compact_nullable(out: &mut BytesMut, text: Option<&str>) {
    match text {
        Some(text) => put_compact(out, text),
        None => put_varint(out, 0),
    }
}

pub(super) fn put_no_tags(out: &mut BytesMut) {
    put_varint(out, 0);
}

/// One tagged field and no other.
pub(super) fn put_tag(out: &mut BytesMut, tag: u32, value: &[u8]) {
    put_varint(out, 1);
    put_varint(out, tag);
    put_varint(out, u32::try_from(value.len()).unwrap_or(u32::MAX));
    out.put_slice(value);
}

fn put_varint(out: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}
