//! The five codecs of record batches, written in Kafka's framings at Kafka's levels. Knows nothing of records,
//! nor how hard a topic wants it tried.

use std::io::{self, Write};

use crate::compression::{Compression, JAVA_SNAPPY_HEADER};

/// Block size of the Java library.
const JAVA_SNAPPY_BLOCK: usize = 32 << 10;
/// Kafka's default of `compression.lz4.level`. By it, as in Kafka, the fast compressor writes; by any other level
/// the thorough one does.
pub const LZ4_LEVEL_DEFAULT: i32 = 9;
/// Below it the thorough LZ4 compressor is none.
const LZ4_LEVEL_MIN: i32 = 2;
/// Above it there is nothing more to try.
const LZ4_LEVEL_MAX: i32 = 12;
/// Kafka's default of `compression.gzip.level`: the codec's own, which is 6.
pub const GZIP_LEVEL_DEFAULT: i32 = -1;
/// What Zstandard looks back over at most, as a power of two: its memory, about eight times as much at the
/// highest level, does not grow with a batch beyond it.
const ZSTD_WINDOW_LOG_MAX: u32 = 22;
/// No codec makes more of bytes that cannot be compressed: a sixth more, by Snappy, and frames around it.
const GROWTH_DIVISOR: usize = 6;
/// See [`GROWTH_DIVISOR`].
const FRAME_BYTES_MAX: usize = 1 << 10;

/// A codec to write in, and how hard it tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Folding {
    /// The codec.
    pub compression: Compression,
    /// By Kafka's numbers for that codec; without meaning for those that have none.
    level: i32,
}

impl From<Compression> for Folding {
    /// At Kafka's default level.
    fn from(compression: Compression) -> Self {
        let level = match compression {
            Compression::Gzip => GZIP_LEVEL_DEFAULT,
            Compression::Lz4 => LZ4_LEVEL_DEFAULT,
            Compression::Zstd => zstd::DEFAULT_COMPRESSION_LEVEL,
            Compression::None | Compression::Snappy => 0,
        };
        Self { compression, level }
    }
}

impl Folding {
    /// At a level by Kafka's numbers; one beyond the codec's own counts as its last.
    pub fn at_level(compression: Compression, level: i32) -> Self {
        Self { compression, level }
    }

    /// What so many bytes become at most.
    pub fn bytes_max(&self, bytes: usize) -> usize {
        match self.compression {
            Compression::None => bytes,
            _ => bytes
                .saturating_add(bytes / GROWTH_DIVISOR)
                .saturating_add(FRAME_BYTES_MAX),
        }
    }

    /// How long so many bytes take on one core, in nanoseconds: an estimate, within about a factor of two for
    /// text, from which to tell what is done at once from what is not.
    pub fn nanos(&self, bytes: usize) -> u64 {
        let picos_per_byte = match (self.compression, self.level) {
            (Compression::None, _) => 200,
            (Compression::Snappy, _) | (Compression::Lz4, LZ4_LEVEL_DEFAULT) => 2_000,
            (Compression::Lz4, ..=LZ4_LEVEL_MIN) => 6_000,
            (Compression::Lz4, 3..=8) => 25_000,
            (Compression::Lz4, _) => 55_000,
            (Compression::Gzip, 1..=3) => 5_000,
            (Compression::Gzip, ..=6) => 15_000,
            (Compression::Gzip, _) => 25_000,
            (Compression::Zstd, ..=3) => 6_000,
            (Compression::Zstd, ..=9) => 25_000,
            (Compression::Zstd, ..=12) => 50_000,
            (Compression::Zstd, ..=15) => 150_000,
            (Compression::Zstd, _) => 650_000,
        };
        (bytes as u64).saturating_mul(picos_per_byte) / 1_000
    }
}

/// Compresses `content` behind what `out` holds.
pub(crate) fn fold(folding: Folding, content: &[u8], out: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut folder = Folder::new(folding, out, usize::MAX, content.len())?;
    folder.write(content)?;
    folder.finish()
}

/// Compresses what comes piece by piece.
pub(crate) struct Folder(Encoder);

enum Encoder {
    Plain(Bounded),
    Gzip(flate2::write::GzEncoder<Bounded>),
    Snappy(Box<Snappy>),
    Lz4(Box<lz4_flex::frame::FrameEncoder<Bounded>>),
    Lz4Thorough(lz4::Encoder<Bounded>),
    Zstd(zstd::stream::write::Encoder<'static, Bounded>),
}

impl Folder {
    /// Writes behind what `out` holds, which grows to `bytes_max` in all: beyond it writing fails with
    /// [`io::ErrorKind::FileTooLarge`]. So many bytes will come, exactly.
    pub(crate) fn new(
        folding: Folding,
        out: Vec<u8>,
        bytes_max: usize,
        content_bytes: usize,
    ) -> io::Result<Self> {
        let out = Bounded { out, bytes_max };
        let level = folding.level;
        Ok(Self(match folding.compression {
            Compression::None => Encoder::Plain(out),
            Compression::Gzip => {
                let level = u32::try_from(level).map_or_else(
                    |_| flate2::Compression::default(),
                    |level| flate2::Compression::new(level.min(9)),
                );
                Encoder::Gzip(flate2::write::GzEncoder::new(out, level))
            }
            Compression::Snappy => Encoder::Snappy(Box::new(Snappy::new(out)?)),
            Compression::Lz4 if level == LZ4_LEVEL_DEFAULT => {
                let frame = lz4_flex::frame::FrameInfo::new()
                    .block_size(lz4_flex::frame::BlockSize::Max64KB)
                    .block_mode(lz4_flex::frame::BlockMode::Independent);
                let encoder = lz4_flex::frame::FrameEncoder::with_frame_info(frame, out);
                Encoder::Lz4(Box::new(encoder))
            }
            Compression::Lz4 => {
                let level = level.clamp(LZ4_LEVEL_MIN, LZ4_LEVEL_MAX).unsigned_abs();
                let encoder = lz4::EncoderBuilder::new()
                    .level(level)
                    .block_size(lz4::BlockSize::Max64KB)
                    .block_mode(lz4::BlockMode::Independent)
                    .checksum(lz4::ContentChecksum::NoChecksum)
                    .build(out)?;
                Encoder::Lz4Thorough(encoder)
            }
            Compression::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(out, level)?;
                let window = zstd::stream::raw::CParameter::WindowLog(ZSTD_WINDOW_LOG_MAX);
                if content_bytes > 1 << ZSTD_WINDOW_LOG_MAX {
                    encoder.set_parameter(window)?;
                }
                // Known beforehand, its memory is made for what comes.
                encoder.set_pledged_src_size(Some(content_bytes as u64))?;
                Encoder::Zstd(encoder)
            }
        }))
    }

    pub(crate) fn write(&mut self, content: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Encoder::Plain(out) => out.write_all(content),
            Encoder::Gzip(encoder) => encoder.write_all(content),
            Encoder::Snappy(encoder) => encoder.write(content),
            Encoder::Lz4(encoder) => encoder.write_all(content),
            Encoder::Lz4Thorough(encoder) => encoder.write_all(content),
            Encoder::Zstd(encoder) => encoder.write_all(content),
        }
    }

    /// What was there before and all that was written, compressed.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        let bounded = match self.0 {
            Encoder::Plain(out) => out,
            Encoder::Gzip(encoder) => encoder.finish()?,
            Encoder::Snappy(encoder) => encoder.finish()?,
            Encoder::Lz4(encoder) => encoder.finish()?,
            Encoder::Lz4Thorough(encoder) => {
                let (out, finished) = encoder.finish();
                finished.map(|()| out)?
            }
            Encoder::Zstd(encoder) => encoder.finish()?,
        };
        Ok(bounded.out)
    }
}

/// The Java library's framing: blocks with their lengths.
struct Snappy {
    out: Bounded,
    encoder: snap::raw::Encoder,
    /// What does not fill a block yet.
    rest: Vec<u8>,
}

impl Snappy {
    fn new(mut out: Bounded) -> io::Result<Self> {
        out.write_all(&JAVA_SNAPPY_HEADER)?;
        Ok(Self {
            out,
            encoder: snap::raw::Encoder::new(),
            rest: Vec::new(),
        })
    }

    fn write(&mut self, mut content: &[u8]) -> io::Result<()> {
        if !self.rest.is_empty() {
            let missing = (JAVA_SNAPPY_BLOCK - self.rest.len()).min(content.len());
            self.rest.extend_from_slice(&content[..missing]);
            content = &content[missing..];
            if self.rest.len() < JAVA_SNAPPY_BLOCK {
                return Ok(());
            }
            let block = std::mem::take(&mut self.rest);
            self.block(&block)?;
        }
        let mut blocks = content.chunks_exact(JAVA_SNAPPY_BLOCK);
        blocks.try_for_each(|block| self.block(block))?;
        self.rest.extend_from_slice(blocks.remainder());
        Ok(())
    }

    fn block(&mut self, block: &[u8]) -> io::Result<()> {
        let block = self.encoder.compress_vec(block).map_err(io::Error::other)?;
        let length = u32::try_from(block.len()).map_err(io::Error::other)?;
        self.out.write_all(&length.to_be_bytes())?;
        self.out.write_all(&block)
    }

    fn finish(mut self) -> io::Result<Bounded> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.block(&rest)?;
        }
        Ok(self.out)
    }
}

/// Memory that refuses to grow beyond a bound.
struct Bounded {
    out: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.bytes_max.saturating_sub(self.out.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
