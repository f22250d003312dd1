//! The hash slots of Redis Cluster.

/// Number of hash slots.
pub const HASH_SLOTS: u16 = 16384;

/// The hash slot of a key: CRC16 of its hash tag, or of the whole key where it has none.
pub fn hash_slot(key: &[u8]) -> u16 {
    hash_tag(key).iter().fold(0, crc16) % HASH_SLOTS
}

/// For each hash slot the smallest number whose decimal digits, as a hash tag, have that slot.
pub(crate) fn tags() -> Vec<u32> {
    let mut tags = vec![None; usize::from(HASH_SLOTS)];
    let mut missing = tags.len();
    // The CRC of every smaller number: the CRC of all digits but the last, extended by the last, is the CRC of a
    // number.
    let mut sums: Vec<u16> = Vec::new();
    let mut number = 0;
    while missing > 0 {
        let before = match number {
            0..10 => 0,
            _ => sums[number as usize / 10],
        };
        let sum = crc16(before, &digit(number));
        sums.push(sum);
        let tag = &mut tags[usize::from(sum % HASH_SLOTS)];
        missing -= usize::from(tag.is_none());
        tag.get_or_insert(number);
        number += 1;
    }
    tags.into_iter().flatten().collect()
}

fn digit(number: u32) -> u8 {
    b'0' + (number % 10) as u8
}

/// The text in the first pair of braces, or the whole key if that is empty or missing.
fn hash_tag(key: &[u8]) -> &[u8] {
    let position = |of: u8, from: usize| {
        let rest = key.get(from..)?;
        Some(from + rest.iter().position(|byte| *byte == of)?)
    };
    match position(b'{', 0).and_then(|open| Some((open + 1, position(b'}', open + 1)?))) {
        Some((begin, end)) if end > begin => key.get(begin..end).unwrap_or(key),
        _ => key,
    }
}

/// Adds a byte to a CRC-16/XMODEM. Tags have a few bytes, so no table is needed.
fn crc16(sum: u16, byte: &u8) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum, _| match sum & 0x8000 {
        0 => sum << 1,
        _ => (sum << 1) ^ POLYNOMIAL,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_slots_match_the_specification() {
        assert_eq!(b"123456789".iter().fold(0, crc16), 0x31C3);
        // The replies of CLUSTER KEYSLOT.
        for (key, slot) in [
            ("foo", 12182),
            ("{foo}bar", 12182),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("", 0),
        ] {
            assert_eq!(hash_slot(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn every_hash_slot_has_its_smallest_tag() {
        let tags = tags();
        assert_eq!(tags.len(), usize::from(HASH_SLOTS));
        for (slot, tag) in tags.iter().enumerate() {
            assert_eq!(usize::from(hash_slot(tag.to_string().as_bytes())), slot);
        }
        for number in 0..1000_u32 {
            let slot = hash_slot(number.to_string().as_bytes());
            assert!(tags[usize::from(slot)] <= number);
        }
    }
}
