//! Which of the 16384 hash slots a key is in.

/// A hash slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u16);

impl Slot {
    /// How many there are.
    pub(crate) const COUNT: u16 = 16384;

    /// The slot of a key: CRC16 of its hash tag, or of the whole key where it has none.
    pub(crate) fn of(key: &[u8]) -> Self {
        Self(crc16(hash_tag(key)) % Self::COUNT)
    }
}

/// What stands in the first pair of braces, unless that is nothing.
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

/// CRC-16/XMODEM. Tags are a few bytes long, so it needs no table.
fn crc16(bytes: &[u8]) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ POLYNOMIAL,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        // As CLUSTER KEYSLOT answers.
        for (key, slot) in [
            ("foo", 12182),
            ("{foo}bar", 12182),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("", 0),
        ] {
            assert_eq!(Slot::of(key.as_bytes()).0, slot, "{key}");
        }
    }
}
