//! The id of a job: 128 bits, from which the location of its record follows.
//!
//! | bits | field |
//! |---|---|
//! | 48 | creation time, ms since 1970 |
//! | 16 | bucket |
//! | 48 | job number inside the bucket |
//! | 16 | nonce, random |
//!
//! The text form is a ULID (26 characters of Crockford's base 32): it sorts by creation time
//! and is a valid queue name. The nonce prevents guessing ids by counting: an id with another nonce than the
//! record's finds no job.

use std::fmt;

use ulid::Ulid;

use crate::limits::JOB_ID_BYTES;

/// Identifies a job for its whole life, including redeliveries, the dead-letter queue and respawns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(u128);

/// The text is not a job id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a job id: expected 26 characters of upper-case Crockford base 32")]
pub struct InvalidJobId;

const U48_MAX: u64 = (1 << 48) - 1;

impl JobId {
    /// Builds an id. `created_at_ms` and `number` are truncated to 48 bits.
    pub const fn new(created_at_ms: u64, bucket: u16, number: u64, nonce: u16) -> Self {
        Self(
            ((created_at_ms & U48_MAX) as u128) << 80
                | (bucket as u128) << 64
                | ((number & U48_MAX) as u128) << 16
                | nonce as u128,
        )
    }

    /// When the job was published, in ms since 1970 on the clock of Redis.
    pub const fn created_at_ms(self) -> u64 {
        (self.0 >> 80) as u64
    }

    /// The bucket that holds the job's record.
    pub const fn bucket(self) -> u16 {
        (self.0 >> 64) as u16
    }

    /// The job's number inside its bucket.
    pub const fn number(self) -> u64 {
        (self.0 >> 16) as u64 & U48_MAX
    }

    /// The random part.
    pub const fn nonce(self) -> u16 {
        self.0 as u16
    }

    /// The 128 bits, big-endian.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id with these bits.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Writes the text form into a buffer, without an allocation.
    pub fn encode(self, buffer: &mut [u8; JOB_ID_BYTES]) -> &mut str {
        Ulid(self.0).array_to_str(buffer)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ulid(self.0).fmt(out)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl TryFrom<&str> for JobId {
    type Error = InvalidJobId;

    /// Accepts only the text that [`fmt::Display`] writes, so that one job has one id.
    fn try_from(text: &str) -> Result<Self, InvalidJobId> {
        let id = Ulid::from_string(text).map_err(|_| InvalidJobId)?;
        if id.to_string() == text {
            Ok(Self(id.0))
        } else {
            Err(InvalidJobId)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_text_round_trip() {
        let id = JobId::new(1_763_700_000_123, 255, U48_MAX, 0xBEEF);
        assert_eq!(id.created_at_ms(), 1_763_700_000_123);
        assert_eq!(
            (id.bucket(), id.number(), id.nonce()),
            (255, U48_MAX, 0xBEEF)
        );
        assert_eq!(id.to_string().len(), 26);
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn text_sorts_by_creation_time() {
        let earlier = JobId::new(1000, u16::MAX, U48_MAX, u16::MAX).to_string();
        assert!(earlier < JobId::new(1001, 0, 0, 0).to_string());
    }

    #[test]
    fn only_the_canonical_text_is_an_id() {
        let id = JobId::new(1_763_700_000_123, 3, 77, 0xA1B2).to_string();
        let overflowing = format!("Z{}", &id[1..]);
        for bad in [
            "",
            "x",
            &id.to_lowercase(),
            &id[1..],
            &overflowing,
            &format!("{id}0"),
        ] {
            assert_eq!(JobId::try_from(bad), Err(InvalidJobId), "{bad:?}");
        }
    }
}
