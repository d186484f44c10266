//! Answers to Produce, Fetch and ListOffsets in versions that Kafka 4 retired (KIP-896): a client
//! pinned to them is told UNSUPPORTED_VERSION instead of being cut off. Knows nothing of any other
//! answer in those versions.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::header::{self, Peek};
use crate::request::set_length;
use crate::{ApiKey, ErrorCode};

const PRODUCE: i16 = ApiKey::Produce as i16;
const FETCH: i16 = ApiKey::Fetch as i16;
const LIST_OFFSETS: i16 = ApiKey::ListOffsets as i16;

/// The answer to a frame (without its length) in a retired version: each partition that it names
/// gets UNSUPPORTED_VERSION. `None` for every other frame, for one that does not parse, and for
/// acks=0, which has no answer: those connections are closed.
pub fn refuse(frame: &Bytes) -> Option<Bytes> {
    let peek = header::peek(frame)?;
    let mut input = frame.slice(PEEK_BYTES..);
    string(&mut input)?;
    let mut out = BytesMut::with_capacity(64);
    out.put_i32(0);
    out.put_i32(peek.correlation_id);
    match peek {
        Peek {
            api_key: PRODUCE,
            api_version: 0..=2,
            ..
        } => produce(&peek, &mut input, &mut out),
        Peek {
            api_key: FETCH,
            api_version: 0..=3,
            ..
        } => fetch(&peek, &mut input, &mut out),
        Peek {
            api_key: LIST_OFFSETS,
            api_version: 0,
            ..
        } => list_offsets(&mut input, &mut out),
        _ => None,
    }?;
    set_length(&mut out, 0).ok()?;
    input.is_empty().then(|| out.freeze())
}

/// API key, version, correlation id; the client id follows.
const PEEK_BYTES: usize = 8;

fn produce(peek: &Peek, input: &mut Bytes, out: &mut BytesMut) -> Option<()> {
    let acks = input.try_get_i16().ok()?;
    input.try_get_i32().ok()?;
    if acks == 0 {
        return None;
    }
    topics(input, out, |input, out| {
        let records = usize::try_from(input.try_get_i32().ok()?).unwrap_or(0);
        (records <= input.len()).then(|| input.advance(records))?;
        out.put_i64(-1);
        if peek.api_version >= 2 {
            out.put_i64(-1);
        }
        Some(())
    })?;
    if peek.api_version >= 1 {
        out.put_i32(0);
    }
    Some(())
}

fn fetch(peek: &Peek, input: &mut Bytes, out: &mut BytesMut) -> Option<()> {
    let fixed = if peek.api_version >= 3 { 16 } else { 12 };
    (fixed <= input.len()).then(|| input.advance(fixed))?;
    if peek.api_version >= 1 {
        out.put_i32(0);
    }
    topics(input, out, |input, out| {
        input.try_get_i64().ok()?;
        input.try_get_i32().ok()?;
        out.put_i64(-1);
        out.put_i32(0);
        Some(())
    })
}

fn list_offsets(input: &mut Bytes, out: &mut BytesMut) -> Option<()> {
    input.try_get_i32().ok()?;
    topics(input, out, |input, out| {
        input.try_get_i64().ok()?;
        input.try_get_i32().ok()?;
        out.put_i32(0);
        Some(())
    })
}

/// Walks topics and partitions; `partition` reads what follows a partition's index and writes what
/// follows its error.
fn topics(
    input: &mut Bytes,
    out: &mut BytesMut,
    partition: impl Fn(&mut Bytes, &mut BytesMut) -> Option<()>,
) -> Option<()> {
    for _ in 0..count(input, out)? {
        let name = string(input)??;
        out.put_i16(i16::try_from(name.len()).ok()?);
        out.put_slice(&name);
        for _ in 0..count(input, out)? {
            out.put_i32(input.try_get_i32().ok()?);
            out.put_i16(ErrorCode::UnsupportedVersion.code());
            partition(input, out)?;
        }
    }
    Some(())
}

/// An array's length, copied to the answer. Null is none.
fn count(input: &mut Bytes, out: &mut BytesMut) -> Option<i32> {
    let count = input.try_get_i32().ok()?.max(0);
    out.put_i32(count);
    Some(count)
}

/// A string, or `Some(None)` for null.
fn string(input: &mut Bytes) -> Option<Option<Bytes>> {
    let Ok(length) = usize::try_from(input.try_get_i16().ok()?) else {
        return Some(None);
    };
    (length <= input.len()).then(|| Some(input.split_to(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Header of an API and version with correlation id 5 and no client id.
    fn frame(api_key: u8, version: u8, body: &[u8]) -> Bytes {
        [&[0, api_key, 0, version, 0, 0, 0, 5, 0xff, 0xff][..], body]
            .concat()
            .into()
    }

    const NO_OFFSET: [u8; 8] = [0xff; 8];

    #[test]
    fn a_retired_produce_is_answered_for_each_partition() {
        let body = b"\xff\xff\0\0\0\x01\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\x03\0\0\0\x02xy\0\0\0\x04\0\0\0\0";
        for version in 0..=2 {
            let mut expected = b"\0\0\0\x05\0\0\0\x01\0\x01t\0\0\0\x02".to_vec();
            for partition in [3, 4] {
                expected.extend_from_slice(&[0, 0, 0, partition, 0, 35]);
                expected.extend_from_slice(&NO_OFFSET);
                if version >= 2 {
                    expected.extend_from_slice(&NO_OFFSET);
                }
            }
            if version >= 1 {
                expected.extend_from_slice(&[0; 4]);
            }
            let answer = refuse(&frame(0, version, body)).expect("is answered");
            assert_eq!(answer[..4], (expected.len() as i32).to_be_bytes());
            assert_eq!(answer[4..], expected, "version {version}");
        }
        let acks_0 = [&[0, 0], &body[2..]].concat();
        assert_eq!(refuse(&frame(0, 2, &acks_0)), None, "acks=0 has no answer");
        assert_eq!(refuse(&frame(0, 3, body)), None, "version 3 is served");
    }

    #[test]
    fn a_retired_fetch_or_list_offsets_is_answered() {
        let topics = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03\0\0\0\0\0\0\0\x09\0\0\0\x07";
        for version in 0..=3 {
            let fixed = if version == 3 { 16 } else { 12 };
            let answer = refuse(&frame(1, version, &[&vec![0; fixed][..], topics].concat()));
            let answer = answer.expect("is answered");
            let throttle = if version == 0 { 0 } else { 4 };
            let tail = [&[0, 0, 0, 3, 0, 35][..], &NO_OFFSET, &[0; 4]].concat();
            assert!(answer.ends_with(&tail), "version {version}: {answer:?}");
            assert_eq!(
                answer.len(),
                8 + throttle + 11 + tail.len(),
                "version {version}"
            );
        }
        let answer = refuse(&frame(2, 0, &[&[0; 4][..], topics].concat())).expect("is answered");
        assert!(
            answer.ends_with(&[0, 0, 0, 3, 0, 35, 0, 0, 0, 0]),
            "{answer:?}"
        );
    }

    #[test]
    fn a_frame_that_lies_about_its_lengths_has_no_answer() {
        let body = b"\xff\xff\0\0\0\x01\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03\0\0\0\x02xy";
        let whole = frame(0, 2, body);
        for length in 0..whole.len() {
            assert_eq!(refuse(&whole.slice(..length)), None, "first {length}");
        }
        assert_eq!(
            refuse(&[&whole[..], &[0]].concat().into()),
            None,
            "a byte more"
        );
    }
}
