//! The header: 34 bytes, big-endian, at fixed places. Lua reads it with
//! `struct.unpack('>BBHHI4I4I6I6I6H', …)`.

use std::ops::BitOr;

use super::{BadRecord, LAYOUT_VERSION};
use crate::State;

/// The length of a header.
pub const HEADER_BYTES: usize = 34;

/// What a record's payload looks like and how its job is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// The payload is compressed.
    pub const COMPRESSED: Self = Self(1);
    /// The payload is in a key of its own, not behind the header.
    pub const BODY_OUTSIDE: Self = Self(2);
    /// The wire shows the job's id in its versioned form.
    pub const VERSIONED_ID: Self = Self(4);

    /// Whether all of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These flags when `condition` holds, none otherwise.
    #[must_use]
    pub const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self(0) }
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What scripts need to know of a job.
///
/// In a call that publishes, the same bytes carry what is asked for: `due_at_ms` holds the delay,
/// `expires_at_ms` the time to live, and the script fills in the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The state the job is in.
    pub state: State,
    /// How to read the payload.
    pub flags: Flags,
    /// Deliveries left.
    pub tries_left: u16,
    /// Deliveries made.
    pub attempt: u32,
    /// The queue's number inside the bucket.
    pub queue: u32,
    /// When the job was published; 48 bits.
    pub created_at_ms: u64,
    /// The job's next moment; 48 bits.
    pub due_at_ms: u64,
    /// When the job disappears, 0 = never; 48 bits.
    pub expires_at_ms: u64,
    /// The random part of the job's id.
    pub nonce: u16,
}

impl Header {
    /// The header's bytes. Instants are cut to 48 bits.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = LAYOUT_VERSION;
        bytes[1] = self.state as u8;
        bytes[2..4].copy_from_slice(&self.flags.0.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.tries_left.to_be_bytes());
        bytes[6..10].copy_from_slice(&self.attempt.to_be_bytes());
        bytes[10..14].copy_from_slice(&self.queue.to_be_bytes());
        for (at, instant) in [
            (14, self.created_at_ms),
            (20, self.due_at_ms),
            (26, self.expires_at_ms),
        ] {
            bytes[at..at + 6].copy_from_slice(&instant.to_be_bytes()[2..]);
        }
        bytes[32..34].copy_from_slice(&self.nonce.to_be_bytes());
        bytes
    }

    /// Reads the header at the beginning of a record.
    ///
    /// # Errors
    /// The bytes are too few, or of a version or state that this build does not know.
    pub fn decode(record: &[u8]) -> Result<Self, BadRecord> {
        let bytes: &[u8; HEADER_BYTES] = record.first_chunk().ok_or(BadRecord::TooShort)?;
        if bytes[0] != LAYOUT_VERSION {
            return Err(BadRecord::UnknownVersion(bytes[0]));
        }
        Ok(Self {
            state: State::from_number(bytes[1]).ok_or(BadRecord::UnknownState(bytes[1]))?,
            flags: Flags(number(&bytes[2..4]) as u16),
            tries_left: number(&bytes[4..6]) as u16,
            attempt: number(&bytes[6..10]) as u32,
            queue: number(&bytes[10..14]) as u32,
            created_at_ms: number(&bytes[14..20]),
            due_at_ms: number(&bytes[20..26]),
            expires_at_ms: number(&bytes[26..32]),
            nonce: number(&bytes[32..34]) as u16,
        })
    }
}

fn number(big_endian: &[u8]) -> u64 {
    big_endian
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
