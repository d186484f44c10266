//! The histograms of every second, as an HdrHistogram log (V2, compressed), one tag for each series: what
//! HdrHistogram's own tools plot, and what intervals are computed from.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use crate::measure::{SERIES, Sample};

/// The log says its maxima in milliseconds.
const NS_PER_MS: f64 = 1e6;

/// Writes the log of a run whose samples are one second each.
///
/// # Errors
/// When the disk does not take it.
pub fn write(path: &Path, started: SystemTime, samples: &[Sample]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .with_start_time(started)
        .with_base_time(started)
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut out, &mut serializer)?;
    for (second, sample) in (0..).zip(samples) {
        for (name, histogram) in SERIES.iter().zip(sample.series()) {
            let tag = Tag::new(name).expect("the names have no commas or spaces");
            log.write_histogram(
                histogram,
                Duration::from_secs(second),
                Duration::from_secs(1),
                Some(tag),
            )
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
        }
    }
    out.flush()
}

/// Reads the histograms of one series, one for each second.
///
/// # Errors
/// What is wrong, in words.
pub fn read(path: &Path, series: &str) -> Result<Vec<Histogram<u64>>, String> {
    let name = path.display();
    let text = std::fs::read(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
    let mut deserializer = Deserializer::new();
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(&text) {
        let entry = entry.map_err(|error| format!("{name} is no histogram log: {error:?}"))?;
        let LogEntry::Interval(interval) = entry else {
            continue;
        };
        if interval.tag().is_none_or(|tag| tag.as_str() != series) {
            continue;
        }
        let packed = decode_base64(interval.encoded_histogram());
        let packed = packed.ok_or_else(|| format!("{name} holds a damaged histogram"))?;
        let histogram = deserializer
            .deserialize(&mut packed.as_slice())
            .map_err(|error| format!("{name} holds a damaged histogram: {error:?}"))?;
        found.push(histogram);
    }
    Ok(found)
}

/// Base64 as RFC 4648 has it, with its padding; `None` for anything else.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut held) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::record;

    #[test]
    fn each_seconds_histogram_is_read_as_it_was_written() {
        let mut samples = vec![Sample::default(); 3];
        for (second, sample) in (1..).zip(&mut samples) {
            for ns in 1..500_u64 {
                record(&mut sample.produce, ns * second * 10_000);
                record(&mut sample.lateness, 7_000);
            }
        }
        let path = std::env::temp_dir().join(format!("loadgen-{}.hlog", std::process::id()));
        write(&path, SystemTime::UNIX_EPOCH, &samples).expect("written");
        let read = read(&path, "produce").expect("read");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(read.len(), 3);
        for (read, sample) in read.iter().zip(&samples) {
            assert_eq!(read, &sample.produce);
        }
    }
}
