// What every driver sends. Knows no client.

export const CODECS = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
export const COUNT = 10_000
// A minute ago: old records are not kept.
export const START_MS = Date.now() - 60_000
export const PARTITIONS = 2
export const PER_PARTITION = COUNT / PARTITIONS

// A record in order of its number; the partition is the number modulo PARTITIONS.
export function record(number) {
  return {
    partition: number % PARTITIONS,
    key: `key-${number}`,
    value: `value-${number}-${'x'.repeat(number % 50)}`,
    headers: { number: `${number}`, empty: '' },
    timestamp: `${START_MS + number}`,
  }
}
