//! The check of a produced batch: checksum, structure, every record, unfolded when compressed. Knows
//! nothing of partitions.

use criterion::{BenchmarkId, Criterion, Throughput};
use wire::batch::Limits;
use wire::compression::Compression;

use crate::samples;

/// Throughput counts the bytes before compression.
pub fn check(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("batch check");
    let limits = Limits::default();
    for (codec, compression) in [
        ("none", Compression::None),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ] {
        for (size, bytes) in [("16 KiB", 16 << 10), ("1 MiB", 1 << 20)] {
            let batch = samples::batch(compression, bytes);
            group.throughput(Throughput::Bytes(bytes as u64));
            group.bench_function(BenchmarkId::new(codec, size), |bencher| {
                bencher.iter(|| wire::batch::check(&batch, &limits).expect("a sound batch"));
            });
        }
    }
    group.finish();
}
