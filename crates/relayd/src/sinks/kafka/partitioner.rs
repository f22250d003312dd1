//! The partition of a key, as Kafka's own clients choose it.

/// The partition of a key in a topic with so many partitions, which are at least one.
pub(super) fn partition_of_key(key: &[u8], partitions: usize) -> usize {
    let positive = murmur2(key) & 0x7fff_ffff;
    positive as usize % partitions
}

/// MurmurHash2 with Kafka's seed.
fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const FACTOR: u32 = 0x5bd1_e995;
    let mix = |word: u32| {
        let word = word.wrapping_mul(FACTOR);
        (word ^ (word >> 24)).wrapping_mul(FACTOR)
    };
    // Its keys are shorter than 4 GiB.
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_mul(FACTOR) ^ mix(u32::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(FACTOR);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the unit tests of Kafka's Java client.
    #[test]
    fn a_key_has_the_partition_that_the_java_client_gives_it() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
        assert_eq!(partition_of_key(b"abc", 3), 479_470_107 % 3);
        let positive = (-973_932_308_i32 & 0x7fff_ffff) as usize;
        assert_eq!(partition_of_key(b"21", 7), positive % 7);
    }
}
