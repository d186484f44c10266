//! The check of a produced batch: checksum, structure, every record, unfolded when compressed. And what it takes to
//! bring it into another codec. Knows nothing of partitions.

use criterion::{BenchmarkId, Criterion, Throughput};
use wire::batch::Limits;
use wire::compression::{Compression, Unfolding};
use wire::folding::Folding;
use wire::records::refold::refold;

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

/// From each codec to each other at its default level, then what levels cost. Throughput counts the bytes before
/// compression.
pub fn refolding(criterion: &mut Criterion) {
    const BYTES: usize = 1 << 20;
    let mut group = criterion.benchmark_group("batch refold");
    group
        .throughput(Throughput::Bytes(BYTES as u64))
        .sample_size(10);
    let mut pairs = Vec::new();
    for from in Compression::ALL {
        let others = Compression::ALL.into_iter().filter(|to| *to != from);
        pairs.extend(others.map(|to| (from, Folding::from(to), String::new())));
    }
    for (to, levels) in [
        (Compression::Gzip, &[1, 9][..]),
        (Compression::Lz4, &[1, 3, 12]),
        (Compression::Zstd, &[-5, 1, 9, 12, 15, 19, 22]),
    ] {
        let at = |level: &i32| {
            let folding = Folding::at_level(to, *level);
            (Compression::None, folding, format!(" {level}"))
        };
        pairs.extend(levels.iter().map(at));
    }
    for (from, folding, level) in pairs {
        let batch = samples::batch(from, BYTES);
        let mut checked = wire::batch::check(&batch, &Limits::default()).expect("a sound batch");
        let checked = checked.remove(0);
        let name = format!("{from:?} to {:?}{level}", folding.compression);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let new = refold(&checked, folding, &Unfolding::default(), usize::MAX);
                new.expect("folded")
            });
        });
    }
    group.finish();
}
