//! Record batches as clients send them, right and wrong. Knows nothing of topics or offsets.

use bytes::Bytes;
use wire::batch::{self, BatchError, BatchHeader, Limits};
use wire::compression::{Compression, Unfolding};
use wire::records::{BatchBuilder, Records, RecordsError};
use wire::{ErrorCode, KafkaString};

const BASE: i64 = 1_700_000_000_000;

/// Three records: key, value, header; no key; a tombstone. The second has the largest timestamp.
fn builder(compression: Compression) -> BatchBuilder {
    let mut builder = BatchBuilder::new(compression).producer(7, 1, 40);
    builder.push(
        BASE,
        Some(b"k"),
        Some(b"value"),
        &[(b"h", Some(b"1")), (b"h", None)],
    );
    builder.push(BASE + 9, None, Some(&[5; 3_000]), &[]);
    builder.push(BASE - 4, Some(b""), None, &[]);
    builder
}

fn example(compression: Compression) -> Bytes {
    builder(compression).finish().expect("builds")
}

/// The example with some bytes written over, and the checksum made right again.
fn altered(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut batch = example(Compression::None).to_vec();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    batch::set_crc(&mut batch);
    batch
}

#[test]
fn the_smallest_timestamp_is_of_the_records_that_have_one() {
    let smallest = |times: &[i64]| {
        let mut builder = BatchBuilder::new(Compression::None);
        for time in times {
            builder.push(*time, None, None, &[]);
        }
        let bytes = builder.finish().expect("builds");
        let checked = batch::check(&bytes, &Limits::default()).expect("is accepted");
        checked[0].min_timestamp
    };
    assert_eq!(smallest(&[-1, BASE, BASE - 4, -1]), BASE - 4);
    assert_eq!(smallest(&[-1, 0]), 0);
    assert_eq!(smallest(&[-1, -1]), -1);
}

/// A batch of one record, of the content given, with the header of the example.
fn with_content(attributes: i16, count: i32, content: &[u8]) -> Vec<u8> {
    let mut batch = example(Compression::None)[..batch::HEADER_BYTES].to_vec();
    batch.extend_from_slice(content);
    let length = i32::try_from(batch.len() - batch::LENGTH_END).expect("small");
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[21..23].copy_from_slice(&attributes.to_be_bytes());
    batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    batch::set_crc(&mut batch);
    batch
}

fn refused(batch: impl Into<Bytes>) -> BatchError {
    batch::check(&batch.into(), &Limits::default()).expect_err("is refused")
}

#[test]
fn a_good_batch_of_each_codec_is_described_and_reads_back() {
    for compression in Compression::ALL {
        let bytes = example(compression);
        let checked = batch::check(&bytes, &Limits::default()).expect("is accepted");
        let [batch] = &checked[..] else {
            panic!("one batch: {checked:?}");
        };
        assert_eq!(batch.bytes, bytes);
        assert_eq!((batch.record_count, batch.last_offset_delta), (3, 2));
        assert_eq!(batch.base_timestamp, BASE);
        assert_eq!(
            (batch.min_timestamp, batch.max_timestamp),
            (BASE - 4, BASE + 9)
        );
        assert_eq!((batch.max_timestamp_delta, batch.keyless), (1, Some(1)));
        assert_eq!(
            (batch.producer_id, batch.producer_epoch, batch.base_sequence),
            (7, 1, 40)
        );
        assert_eq!(
            (batch.compression, batch.is_transactional),
            (compression, false)
        );

        let records: Vec<_> = Records::open(&bytes, &Unfolding::default())
            .expect("opens")
            .collect::<Result<_, _>>()
            .expect("reads");
        assert_eq!(records.len(), 3, "{compression:?}");
        assert_eq!(records[0].headers.len(), 2);
        assert_eq!(records[0].headers[1].value, None);
        assert_eq!(records[1].key, None);
        assert_eq!(records[1].value.as_deref(), Some(&[5; 3_000][..]));
        assert_eq!(
            (records[2].key.as_deref(), &records[2].value),
            (Some(&b""[..]), &None)
        );
        assert_eq!(
            (records[2].timestamp, records[2].offset_delta),
            (BASE - 4, 2)
        );
    }
}

#[test]
fn the_first_record_counts_for_the_largest_timestamp_and_for_the_missing_key() {
    let mut builder = BatchBuilder::new(Compression::None);
    for (timestamp, key) in [(5, Some(&b"k"[..])), (9, None), (9, None)] {
        builder.push(timestamp, key, None, &[]);
    }
    let bytes = builder.finish().expect("builds");
    let checked = batch::check(&bytes, &Limits::default()).expect("is accepted");
    assert_eq!(
        (checked[0].max_timestamp_delta, checked[0].keyless),
        (1, Some(1))
    );
}

#[test]
fn a_batch_that_is_not_whole_or_not_magic_2_gets_its_error() {
    let length = |value: i32| altered(batch::LENGTH_AT, &value.to_be_bytes());
    let magic = |value: u8| altered(batch::MAGIC_AT, &[value]);
    let good = example(Compression::None).to_vec();
    let mut flipped = good.clone();
    *flipped.last_mut().expect("not empty") ^= 1;
    check_headers(&[
        ("nothing", vec![], ErrorCode::InvalidRecord),
        (
            "torn header",
            good[..40].to_vec(),
            ErrorCode::CorruptMessage,
        ),
        (
            "torn records",
            good[..good.len() - 1].to_vec(),
            ErrorCode::CorruptMessage,
        ),
        ("magic 0", magic(0), ErrorCode::InvalidRecord),
        ("magic 1", magic(1), ErrorCode::InvalidRecord),
        ("magic 3", magic(3), ErrorCode::InvalidRecord),
        ("negative length", length(-5), ErrorCode::CorruptMessage),
        ("short length", length(48), ErrorCode::CorruptMessage),
        ("huge length", length(i32::MAX), ErrorCode::CorruptMessage),
        ("a flipped bit", flipped, ErrorCode::CorruptMessage),
    ]);
}

#[test]
fn each_bad_header_gets_its_error() {
    let attributes = |value: i16| altered(batch::ATTRIBUTES_AT, &value.to_be_bytes());
    let count = |value: i32| altered(57, &value.to_be_bytes());
    let base_offset = altered(batch::BASE_OFFSET_AT, &7i64.to_be_bytes());
    let last_offset_delta = altered(23, &3i32.to_be_bytes());
    let sequence = altered(53, &(-1i32).to_be_bytes());
    let append_time = attributes(batch::LOG_APPEND_TIME);
    check_headers(&[
        ("base offset", base_offset, ErrorCode::InvalidRecord),
        (
            "control",
            attributes(batch::CONTROL),
            ErrorCode::InvalidRecord,
        ),
        (
            "delete horizon",
            attributes(batch::DELETE_HORIZON),
            ErrorCode::InvalidRecord,
        ),
        ("log append time", append_time, ErrorCode::InvalidTimestamp),
        (
            "codec 5",
            attributes(5),
            ErrorCode::UnsupportedCompressionType,
        ),
        (
            "codec 7",
            attributes(7),
            ErrorCode::UnsupportedCompressionType,
        ),
        ("no sequence", sequence, ErrorCode::InvalidRecord),
        ("count 0", count(0), ErrorCode::InvalidRecord),
        ("count -1", count(-1), ErrorCode::InvalidRecord),
        ("count off", count(4), ErrorCode::InvalidRecord),
        (
            "last offset off",
            last_offset_delta,
            ErrorCode::InvalidRecord,
        ),
        (
            "no records",
            with_content(0, 0, b""),
            ErrorCode::InvalidRecord,
        ),
    ]);
}

fn check_headers(table: &[(&str, Vec<u8>, ErrorCode)]) {
    for (name, batch, code) in table {
        let error = refused(batch.clone());
        assert_eq!(error.code(), *code, "{name}: {error}");
        assert_eq!(error.record_index(), None, "{name}: {error}");
    }
}

/// Length, attributes, timestamp delta, offset delta, key, value, header count: all least.
const FIRST: &[u8] = &[12, 0, 0, 0, 1, 1, 0];

#[test]
fn each_bad_record_gets_its_error_and_its_index() {
    use RecordsError::{Malformed, OffsetDelta, TooFew, TooMany};
    let table: &[(&str, i32, &[u8], RecordsError)] = &[
        ("too few", 2, &[], TooFew),
        ("too many", 1, FIRST, TooMany),
        ("negative length", 2, &[11, 0, 0, 2, 1, 1, 0], Malformed),
        ("length too long", 2, &[14, 0, 0, 2, 1, 1, 0], TooFew),
        ("length too short", 2, &[10, 0, 0, 2, 1, 1, 0], Malformed),
        (
            "a byte after the last field",
            2,
            &[14, 0, 0, 2, 1, 1, 0, 0],
            Malformed,
        ),
        ("same offset again", 2, FIRST, OffsetDelta),
        ("key beyond record", 2, &[12, 0, 0, 2, 8, 1, 0], Malformed),
        ("value beyond record", 2, &[12, 0, 0, 2, 1, 8, 0], Malformed),
        ("negative headers", 2, &[12, 0, 0, 2, 1, 1, 1], Malformed),
        ("missing header", 2, &[12, 0, 0, 2, 1, 1, 2], Malformed),
        (
            "null header key",
            2,
            &[16, 0, 0, 2, 1, 1, 2, 1, 1],
            Malformed,
        ),
        ("endless varint", 2, &[0xff; 12], Malformed),
    ];
    for &(name, count, second, error) in table {
        for compression in [Compression::None, Compression::Zstd] {
            let refused = refused(with_records(compression, count, &[FIRST, second].concat()));
            let expected = BatchError::Record { index: 1, error };
            assert_eq!(refused, expected, "{name}, {compression:?}");
            assert_eq!(refused.code(), ErrorCode::InvalidRecord, "{name}");
        }
    }
}

#[test]
fn a_timestamp_beyond_64_bits_is_an_invalid_timestamp() {
    const DELTA: [u8; 10] = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let content = [&[30, 0][..], &DELTA, &[0, 1, 1, 0]].concat();
    let error = refused(with_records(Compression::None, 1, &content));
    assert_eq!(
        error,
        BatchError::Record {
            index: 0,
            error: RecordsError::Timestamp
        }
    );
    assert_eq!(error.code(), ErrorCode::InvalidTimestamp);
}

fn with_records(compression: Compression, count: i32, records: &[u8]) -> Vec<u8> {
    let content = match compression {
        Compression::None => records.to_vec(),
        _ => zstd::stream::encode_all(records, 1).expect("compresses"),
    };
    with_content(compression.attributes(), count, &content)
}

#[test]
fn content_that_is_not_of_its_codec_is_an_invalid_record() {
    for compression in &Compression::ALL[1..] {
        for content in [&b""[..], b"not compressed at all", &[0xff; 64], &[0; 64]] {
            let error = refused(with_content(compression.attributes(), 1, content));
            assert_eq!(
                error.code(),
                ErrorCode::InvalidRecord,
                "{compression:?}: {error}"
            );
        }
        let whole = example(*compression);
        let torn = &whole[batch::HEADER_BYTES..whole.len() - 6];
        let error = refused(with_content(compression.attributes(), 3, torn));
        assert_eq!(
            error.code(),
            ErrorCode::InvalidRecord,
            "{compression:?}: {error}"
        );
    }
}

#[test]
fn a_bomb_is_too_large_before_it_unfolds() {
    let limits = Limits {
        unfolding: Unfolding {
            output_bytes_max: 1 << 20,
            ratio_max: 10,
            ratio_free_bytes: 1 << 16,
        },
        zstd: true,
    };
    let zeros = vec![0; 900 << 10];
    for compression in &Compression::ALL[1..] {
        let mut builder = BatchBuilder::new(*compression);
        builder.push(BASE, None, Some(&zeros), &[]);
        let bytes = builder.finish().expect("builds");
        let ratio = batch::check(&bytes, &limits).expect_err("beyond the ratio");
        assert_eq!(
            ratio.code(),
            ErrorCode::MessageTooLarge,
            "{compression:?}: {ratio}"
        );
        assert!(
            batch::check(&bytes, &Limits::default()).is_ok(),
            "{compression:?}"
        );
        let tight = Unfolding {
            output_bytes_max: 800 << 10,
            ..Unfolding::default()
        };
        let mut records = Records::open(&bytes, &tight).expect("opens");
        assert_eq!(
            records.next(),
            Some(Err(RecordsError::TooLarge)),
            "{compression:?}"
        );
        assert_eq!(records.next(), None);
    }
}

#[test]
fn zstd_is_refused_where_the_version_does_not_have_it() {
    let limits = Limits {
        zstd: false,
        ..Limits::default()
    };
    let error = batch::check(&example(Compression::Zstd), &limits).expect_err("is refused");
    assert_eq!(error.code(), ErrorCode::UnsupportedCompressionType);
    assert!(batch::check(&example(Compression::Lz4), &limits).is_ok());
}

#[test]
fn snappy_is_read_raw_and_framed_and_concatenated() {
    let plain = example(Compression::None);
    let content = &plain[batch::HEADER_BYTES..];
    let block = |bytes: &[u8]| {
        snap::raw::Encoder::new()
            .compress_vec(bytes)
            .expect("compresses")
    };
    let framed = |bytes: &[u8]| {
        let block = block(bytes);
        let length = u32::try_from(block.len()).expect("small");
        [
            b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01",
            &length.to_be_bytes()[..],
            &block,
        ]
        .concat()
    };
    let concatenated = [framed(&content[..100]), framed(&content[100..])].concat();
    for content in [block(content), framed(content), concatenated] {
        let batch = with_content(Compression::Snappy.attributes(), 3, &content).into();
        let checked = batch::check(&batch, &Limits::default()).expect("is accepted");
        assert_eq!(checked[0].record_count, 3);
    }
}

#[test]
fn lz4_is_read_in_every_variant_of_its_frame() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;

    let plain = example(Compression::None);
    let content = &plain[batch::HEADER_BYTES..];
    for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for checksums in [false, true] {
                let frame = FrameInfo::new()
                    .block_size(size)
                    .block_mode(mode)
                    .block_checksums(checksums)
                    .content_checksum(checksums)
                    .content_size(checksums.then_some(content.len() as u64));
                let mut encoder = FrameEncoder::with_frame_info(frame, Vec::new());
                encoder.write_all(content).expect("compresses");
                let content = encoder.finish().expect("compresses");
                let batch = with_content(Compression::Lz4.attributes(), 3, &content).into();
                assert!(
                    batch::check(&batch, &Limits::default()).is_ok(),
                    "{size:?} {mode:?}"
                );
            }
        }
    }
}

#[test]
fn a_wrong_largest_timestamp_is_corrected_as_kafka_does() {
    let wrong = altered(batch::MAX_TIMESTAMP_AT, &3i64.to_be_bytes());
    let checked = batch::check(&wrong.into(), &Limits::default()).expect("is accepted");
    assert_eq!(checked[0].bytes, example(Compression::None));
}

#[test]
fn stamping_keeps_the_checksum_and_log_append_time_renews_it() {
    let mut bytes = example(Compression::Gzip).to_vec();
    batch::stamp(&mut bytes, 1 << 40, 12);
    assert!(batch::crc_matches(&bytes));
    let header = *BatchHeader::parse(&bytes).expect("whole");
    assert_eq!((header.base_offset(), header.leader_epoch()), (1 << 40, 12));
    assert_eq!(header.last_offset(), (1 << 40) + 2);

    batch::set_log_append_time(&mut bytes, 99);
    assert!(batch::crc_matches(&bytes));
    let bytes = Bytes::from(bytes);
    let times: Vec<i64> = Records::open(&bytes, &Unfolding::default())
        .expect("opens")
        .map(|record| record.expect("reads").timestamp)
        .collect();
    assert_eq!(times, [99, 99, 99], "every record has the broker's time");
}

#[test]
fn a_run_of_batches_ends_before_zeros_garbage_or_a_torn_batch() {
    let one = example(Compression::None);
    let two = example(Compression::Lz4);
    let run = [&one[..], &two].concat();
    let magic_1 = altered(batch::MAGIC_AT, &[1]);
    let tails: [&[u8]; 5] = [
        &[],
        &[0; 4096],
        &[0xff; 100],
        &two[..two.len() - 1],
        &magic_1,
    ];
    for tail in tails {
        let bytes = [&run[..], tail].concat();
        let mut batches = batch::split(&bytes);
        let positions: Vec<usize> = batches.by_ref().map(|view| view.position).collect();
        assert_eq!(positions, [0, one.len()]);
        assert_eq!(batches.position(), run.len());
    }
}

#[test]
fn several_batches_are_all_checked() {
    let run: Bytes = [
        &example(Compression::None)[..],
        &example(Compression::Snappy),
    ]
    .concat()
    .into();
    let checked = batch::check(&run, &Limits::default()).expect("is accepted");
    assert_eq!(checked.len(), 2);
    assert_eq!(checked[1].bytes, example(Compression::Snappy));
}

#[test]
fn the_messages_of_errors_name_the_record() {
    let error = BatchError::Record {
        index: 4,
        error: RecordsError::OffsetDelta,
    };
    assert!(error.to_string().starts_with("record 4: "), "{error}");
    assert_eq!(error.record_index(), Some(4));
    let _ = KafkaString::from(error.to_string());
}

#[test]
fn a_batch_with_a_new_producer_reads_as_if_it_had_been_built_for_it() {
    for compression in Compression::ALL {
        let mut batch = example(compression).to_vec();
        batch::set_producer(&mut batch, 8, 2, 41);
        let built = builder(compression).producer(8, 2, 41).finish();
        assert_eq!(built.expect("builds"), batch, "{compression:?}");
    }
}

#[test]
fn no_record_takes_more_bytes_than_was_said() {
    for (key, value) in [
        (None, None),
        (Some(&b"k"[..]), Some(&[7; 8_192][..])),
        (Some(&[1; 63][..]), Some(&[1; 64][..])),
    ] {
        let headers = [(&b"header"[..], None), (&b""[..], Some(&[0; 127][..]))];
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(i64::MIN, key, value, &headers);
        let before = builder.uncompressed_bytes();
        builder.push(i64::MAX / 2, key, value, &headers);
        let added = builder.uncompressed_bytes() - before;
        let most = BatchBuilder::record_bytes_max(key, value, &headers);
        assert!((added..added + 24).contains(&most), "{added} of {most}");
    }
}
