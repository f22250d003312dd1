//! The history of a job: its failures, which the script `fail` stores.

use redis::Cmd;
use tidegate_core::JobId;

use crate::error::StoreError;
use crate::store::Store;

/// Length of the fields before the error, in bytes.
const FIELDS_BYTES: usize = 17;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureEffect {
    /// The job was to be delivered again.
    Retried,
    /// The job was dead: that was its last attempt.
    Dead,
    /// The job was dead: its consumer wanted no other attempt.
    DeadForGood,
}

/// A delivery that its consumer reported as failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedFailure {
    /// The delivery.
    pub attempt: u32,
    /// When it ended, in ms since 1970 on the clock of Redis.
    pub at_ms: u64,
    pub effect: FailureEffect,
    /// The error, as the consumer wrote it.
    pub error: String,
}

impl LoggedFailure {
    /// Decodes an entry; `None` if it is damaged.
    pub(crate) fn decode(entry: &[u8]) -> Option<Self> {
        let (fields, error) = entry.split_at_checked(FIELDS_BYTES)?;
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        Some(Self {
            attempt: u32::try_from(number(&fields[1..5])).ok()?,
            at_ms: number(&fields[5..11]),
            effect: match fields[0] {
                1 => FailureEffect::Retried,
                2 => FailureEffect::Dead,
                3 => FailureEffect::DeadForGood,
                _ => return None,
            },
            error: String::from_utf8_lossy(error).into_owned(),
        })
    }
}

impl Store {
    /// The last failures of a job, oldest first: up to ten. Damaged entries are left out.
    ///
    /// # Errors
    /// Redis is unavailable.
    pub async fn history(&self, id: JobId) -> Result<Vec<LoggedFailure>, StoreError> {
        if !self.has_bucket_of(id) {
            return Ok(Vec::new());
        }
        let log = self.keys(id.bucket()).log(id.number());
        let entries: Vec<Vec<u8>> = self.command(&Cmd::lrange(log, 0, -1)).await?;
        let entries = entries.iter();
        Ok(entries
            .filter_map(|entry| LoggedFailure::decode(entry))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_the_script_writes_them() {
        let entry = b"\x03\0\0\0\x07\0\0\0\0\x01\x02\0\0\0\0\0\0smtp: 550";
        let failure = LoggedFailure {
            attempt: 7,
            at_ms: 258,
            effect: FailureEffect::DeadForGood,
            error: "smtp: 550".to_owned(),
        };
        assert_eq!(LoggedFailure::decode(entry), Some(failure));
        assert_eq!(LoggedFailure::decode(&entry[..16]), None);
        assert_eq!(LoggedFailure::decode(b"\x04 and so on, long enough"), None);
    }
}
