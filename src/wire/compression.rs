//! The five codecs of record batches, read as bounded streams; `folding` writes them. Knows nothing of
//! records.

use std::io::{self, Read};

use bytes::{Buf, Bytes, BytesMut};

/// Codec of a batch: the low three bits of its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Records as they are.
    None,
    /// RFC 1952, members may be concatenated.
    Gzip,
    /// Raw Snappy, or the Java library's framing around it.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// Zstandard (KIP-110; Produce from version 7, Fetch from version 10).
    Zstd,
}

impl Compression {
    /// All codecs, by their number.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec that batch attributes name, or `None` for a number without codec.
    pub fn from_attributes(attributes: i16) -> Option<Self> {
        let number = usize::from(attributes.cast_unsigned() & ATTRIBUTE_MASK);
        Self::ALL.get(number).copied()
    }

    /// The codec's number, as the low bits of batch attributes.
    pub fn attributes(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }
}

/// The bits of a batch's attributes that name its codec.
const ATTRIBUTE_MASK: u16 = 0b111;

/// How far a batch may unfold. A compressed batch may produce `output_bytes_max` at most, and not
/// more than `ratio_max` times its size once it is beyond `ratio_free_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfolding {
    /// Bytes that one batch may decompress to.
    pub output_bytes_max: usize,
    /// Decompressed bytes per compressed byte.
    pub ratio_max: usize,
    /// Decompressed bytes up to which the ratio is not looked at: honest data repeats.
    pub ratio_free_bytes: usize,
}

impl Default for Unfolding {
    fn default() -> Self {
        Self {
            output_bytes_max: 64 << 20,
            ratio_max: 1_000,
            ratio_free_bytes: 8 << 20,
        }
    }
}

impl Unfolding {
    /// Whether so many bytes may come of so many compressed ones.
    pub fn allows(&self, compressed_len: usize, unfolded_len: usize) -> bool {
        unfolded_len <= self.cap(compressed_len)
    }

    fn cap(&self, compressed_len: usize) -> usize {
        let by_ratio = compressed_len.saturating_mul(self.ratio_max);
        by_ratio
            .max(self.ratio_free_bytes)
            .min(self.output_bytes_max)
    }
}

/// Why compressed content gives no more bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfold {
    /// It unfolds to more than [`Unfolding`] allows.
    TooLarge,
    /// It is not what its codec writes.
    Corrupt,
}

/// A bounded window over decompressed content.
pub(crate) struct Content {
    source: Source,
    pub(crate) window: BytesMut,
    produced: usize,
    cap: usize,
}

enum Source {
    Gzip(Box<flate2::bufread::MultiGzDecoder<bytes::buf::Reader<Bytes>>>),
    Snappy(Snappy),
    Lz4(Box<lz4_flex::frame::FrameDecoder<bytes::buf::Reader<Bytes>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, bytes::buf::Reader<Bytes>>>),
}

/// Bytes asked of a codec at a time.
const CHUNK: usize = 32 << 10;

impl Content {
    /// Opens compressed content; `None` for [`Compression::None`], which needs no window.
    pub(crate) fn open(
        compression: Compression,
        compressed: Bytes,
        unfolding: &Unfolding,
    ) -> Result<Option<Self>, Unfold> {
        let cap = unfolding.cap(compressed.len());
        let source = match compression {
            Compression::None => return Ok(None),
            Compression::Gzip => Source::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(
                compressed.reader(),
            ))),
            Compression::Snappy => Source::Snappy(Snappy::new(compressed)),
            Compression::Lz4 => Source::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(
                compressed.reader(),
            ))),
            Compression::Zstd => Source::Zstd(Box::new(
                zstd::stream::read::Decoder::with_buffer(compressed.reader())
                    .map_err(|_| Unfold::Corrupt)?,
            )),
        };
        Ok(Some(Self {
            source,
            window: BytesMut::new(),
            produced: 0,
            cap,
        }))
    }

    /// Adds the next decompressed bytes to the window; false at the end of the content.
    pub(crate) fn fill(&mut self) -> Result<bool, Unfold> {
        let had = self.window.len();
        let room = CHUNK.min(self.cap.saturating_sub(self.produced).saturating_add(1));
        self.window.resize(had + room, 0);
        let got = self
            .source
            .read(&mut self.window[had..], self.cap - self.produced);
        self.window.truncate(had + *got.as_ref().unwrap_or(&0));
        let got = got?;
        if got > self.cap - self.produced {
            return Err(Unfold::TooLarge);
        }
        self.produced += got;
        Ok(got > 0)
    }
}

impl Source {
    fn read(&mut self, out: &mut [u8], left: usize) -> Result<usize, Unfold> {
        let read = |reader: &mut dyn Read, out: &mut [u8]| loop {
            match reader.read(out) {
                Ok(got) => return Ok(got),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Unfold::Corrupt),
            }
        };
        match self {
            Self::Gzip(reader) => read(reader, out),
            Self::Snappy(reader) => reader.read(out, left),
            Self::Lz4(reader) => read(reader, out),
            Self::Zstd(reader) => read(reader, out),
        }
    }
}

/// What the Java library writes before its blocks: magic, version 1, compatible with version 1.
pub(crate) const JAVA_SNAPPY_HEADER: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
/// The part of the header that names the framing; versions follow it.
const JAVA_SNAPPY_MAGIC: &[u8] = b"\x82SNAPPY\0";
/// No Snappy element makes more than 64 bytes of two; a larger claim is a lie.
const SNAPPY_RATIO_MAX: usize = 64;

/// Raw Snappy (one block), or blocks in the Java library's framing.
struct Snappy {
    rest: Bytes,
    framed: bool,
    block: Vec<u8>,
    given: usize,
}

impl Snappy {
    fn new(compressed: Bytes) -> Self {
        Self {
            framed: compressed.starts_with(JAVA_SNAPPY_MAGIC),
            rest: compressed,
            block: Vec::new(),
            given: 0,
        }
    }

    fn read(&mut self, out: &mut [u8], left: usize) -> Result<usize, Unfold> {
        while self.given == self.block.len() {
            if self.rest.is_empty() {
                return Ok(0);
            }
            let compressed = self.next_block()?;
            if !compressed.is_empty() {
                self.unfold(&compressed, left)?;
            }
        }
        let given = out.len().min(self.block.len() - self.given);
        out[..given].copy_from_slice(&self.block[self.given..self.given + given]);
        self.given += given;
        Ok(given)
    }

    /// The next compressed block; empty for a header (streams may be concatenated).
    fn next_block(&mut self) -> Result<Bytes, Unfold> {
        if !self.framed {
            return Ok(std::mem::take(&mut self.rest));
        }
        if self.rest.starts_with(JAVA_SNAPPY_MAGIC) {
            if self.rest.len() < JAVA_SNAPPY_HEADER.len() {
                return Err(Unfold::Corrupt);
            }
            self.rest.advance(JAVA_SNAPPY_HEADER.len());
            return Ok(Bytes::new());
        }
        let length = self.rest.try_get_u32().map_err(|_| Unfold::Corrupt)?;
        let length = usize::try_from(length).map_err(|_| Unfold::Corrupt)?;
        if length == 0 || length > self.rest.len() {
            return Err(Unfold::Corrupt);
        }
        Ok(self.rest.split_to(length))
    }

    fn unfold(&mut self, compressed: &[u8], left: usize) -> Result<(), Unfold> {
        let claim = snap::raw::decompress_len(compressed).map_err(|_| Unfold::Corrupt)?;
        if claim > compressed.len().saturating_mul(SNAPPY_RATIO_MAX) {
            return Err(Unfold::Corrupt);
        }
        if claim > left {
            return Err(Unfold::TooLarge);
        }
        self.block.resize(claim, 0);
        self.given = 0;
        let got = snap::raw::Decoder::new()
            .decompress(compressed, &mut self.block)
            .map_err(|_| Unfold::Corrupt)?;
        self.block.truncate(got);
        Ok(())
    }
}
