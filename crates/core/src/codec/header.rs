//! The header of a record: 34 bytes, big-endian, at fixed offsets. Lua reads it with
//! `struct.unpack('>BBHHI4I4I6I6I6H', …)`.

use std::ops::BitOr;

use super::bad_record::{InvalidRecord, LAYOUT_VERSION};
use crate::{JobId, JobState};

/// Length of a header, in bytes.
pub const HEADER_BYTES: usize = 34;

/// How a payload is stored, and how the id of its job is shown.
///
/// The low byte is set when a job is published and never changes, except for [`Self::COLD`]; the seal of the payload
/// covers the rest of it. Scripts may change the high byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordFlags(pub u16);

impl RecordFlags {
    /// The payload is compressed with LZ4.
    pub const COMPRESSED: Self = Self(1);
    /// An extension follows the header.
    pub const EXTENDED: Self = Self(8);
    /// The job counts failures and losses instead of the tries left.
    pub const COUNTS_FAILURES: Self = Self(16);
    /// No number of losses makes the job dead.
    pub const LOSSES_UNLIMITED: Self = Self(32);
    /// The extension has the hash of a group.
    pub const GROUPED: Self = Self(64);
    /// The payload is in the cold tier: the record has a [`crate::ColdReference`] in its place. Such a record has
    /// [`Self::BODY_OUTSIDE`] too.
    pub const COLD: Self = Self(128);
    /// The producer wants the job cancelled while a consumer holds it.
    pub const CANCEL_REQUESTED: Self = Self(4096);
    /// A newer version of the job waits for the end of its lease.
    pub const NEXT_WAITS: Self = Self(8192);
    /// The job has a history of failures in a separate key.
    pub const LOGGED: Self = Self(16384);
    /// A client waits for the end of the job.
    pub const AWAITED: Self = Self(32768);
    /// The payload is stored in a separate key, not behind the header.
    pub const BODY_OUTSIDE: Self = Self(256);
    /// The flag of the HTTP interface; see [`crate::NewJob::mark`].
    pub const MARK: Self = Self(4);

    /// Three bits with the priority of the job.
    const PRIORITY_SHIFT: u32 = 9;

    /// The flags with this priority, and no other flag.
    #[must_use]
    pub const fn of_priority(priority: u8) -> Self {
        Self((priority as u16 & 7) << Self::PRIORITY_SHIFT)
    }

    /// The priority of the job.
    pub const fn priority(self) -> u8 {
        (self.0 >> Self::PRIORITY_SHIFT) as u8 & 7
    }

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The flags that never change.
    #[must_use]
    pub(super) const fn fixed(self) -> Self {
        Self(self.0 & 0x7F)
    }

    /// These flags if `condition` is true, otherwise none.
    #[must_use]
    pub const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self(0) }
    }
}

impl BitOr for RecordFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The part of a record that scripts read.
///
/// The call that publishes passes a header too. In it `due_at_ms` is the delay and `expires_at_ms` the time to live,
/// both in ms; the script sets both instants, `queue` and `created_at_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    pub state: JobState,
    /// How the payload is stored.
    pub flags: RecordFlags,
    /// Deliveries left; of a job that counts failures: failures × 16 + losses.
    pub tries_left: u16,
    /// Deliveries made, including deliveries that were taken back.
    pub attempt: u32,
    /// The queue's number inside the bucket.
    pub queue: u32,
    /// When the job was published, in ms since 1970; 48 bits.
    pub created_at_ms: u64,
    /// Due time, or end of the lease, in ms since 1970; 48 bits.
    pub due_at_ms: u64,
    /// When the job expires, in ms since 1970; 0 = never; 48 bits.
    pub expires_at_ms: u64,
    /// The random part of the job's id.
    pub nonce: u16,
}

impl RecordHeader {
    /// The id of the job with this number.
    pub const fn id(&self, bucket: u16, number: u64) -> JobId {
        JobId::new(self.created_at_ms, bucket, number, self.nonce)
    }

    /// Encodes the header. Instants are truncated to 48 bits.
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

    /// Decodes the header at the beginning of a record.
    ///
    /// # Errors
    /// The record is too short, or its version or state is unknown.
    pub fn decode(record: &[u8]) -> Result<Self, InvalidRecord> {
        let bytes: &[u8; HEADER_BYTES] = record.first_chunk().ok_or(InvalidRecord::TooShort)?;
        if bytes[0] != LAYOUT_VERSION {
            return Err(InvalidRecord::UnknownVersion(bytes[0]));
        }
        Ok(Self {
            state: JobState::from_number(bytes[1]).ok_or(InvalidRecord::UnknownState(bytes[1]))?,
            flags: RecordFlags(number(&bytes[2..4]) as u16),
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
