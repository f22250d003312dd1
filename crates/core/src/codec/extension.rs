//! The extension of a record: options of a job that most jobs do not have, between header and payload.
//!
//! A length byte, then fields in this order, each with a letter: `K` hash of the key (12 bytes), `G` hash of the group
//! (8), `L` lease in ms (4), `A` most attempts (2), `R` retry delays (number of delays in one byte, jitter in
//! thousandths in two, 6 bytes a delay in ms; or, if the number is 255, the first delay in 6 bytes, the factor as a
//! double, and the longest delay in 6), `T` how long the job is kept once it is done, in ms (4). Numbers are
//! big-endian. The seal of the payload covers the extension.

use super::bad_record::InvalidRecord;
use crate::extension::{RecordExtension, RetryDelays, RetrySteps};
use crate::group_hash::GroupHash;
use crate::limits::RETRY_DELAYS_MAX;

/// The longest delay that a record holds, in ms: it has 48 bits.
const DELAY_MS_MAX: u64 = (1 << 48) - 1;

/// Stands for the number of delays if they grow.
const GROWING: u8 = 255;

impl RecordExtension {
    /// Appends the encoded extension to `record`. At most 136 bytes; delays after the 16th are left out.
    pub(super) fn encode(&self, record: &mut Vec<u8>) {
        let length_at = record.len();
        record.push(0);
        field(
            record,
            b'K',
            self.key_hash.as_ref().map(<[u8; _]>::as_slice),
        );
        field(
            record,
            b'G',
            self.group_hash.as_ref().map(|hash| hash.0.as_slice()),
        );
        let lease = self.lease_ms.map(u32::to_be_bytes);
        field(record, b'L', lease.as_ref().map(<[u8; _]>::as_slice));
        let attempts = self.max_attempts.map(u16::to_be_bytes);
        field(record, b'A', attempts.as_ref().map(<[u8; _]>::as_slice));
        let retry = self.retry.as_ref().map(RetryDelays::bytes);
        field(record, b'R', retry.as_deref());
        let retain = self.retain_ms.map(u32::to_be_bytes);
        field(record, b'T', retain.as_ref().map(<[u8; _]>::as_slice));
        record[length_at] = (record.len() - length_at - 1) as u8;
    }

    /// Decodes the extension at the beginning of `bytes`, and returns it with its length, length byte included.
    ///
    /// # Errors
    /// It is truncated, or has an unknown field.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, usize), InvalidRecord> {
        let (length, rest) = bytes.split_first().ok_or(InvalidRecord::BadExtension)?;
        let length = usize::from(*length);
        let mut fields = rest.get(..length).ok_or(InvalidRecord::BadExtension)?;
        let mut read = Self::default();
        while let Some((letter, rest)) = fields.split_first() {
            fields = rest;
            match letter {
                b'K' => read.key_hash = Some(take(&mut fields)?),
                b'G' => read.group_hash = Some(GroupHash(take(&mut fields)?)),
                b'L' => read.lease_ms = Some(u32::from_be_bytes(take(&mut fields)?)),
                b'A' => read.max_attempts = Some(u16::from_be_bytes(take(&mut fields)?)),
                b'R' => read.retry = Some(RetryDelays::take(&mut fields)?),
                b'T' => read.retain_ms = Some(u32::from_be_bytes(take(&mut fields)?)),
                _ => return Err(InvalidRecord::BadExtension),
            }
        }
        Ok((read, length + 1))
    }
}

impl RetryDelays {
    /// The delays as they are stored, and as scripts take them.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match &self.steps {
            RetrySteps::Listed(delays) => {
                let delays = &delays[..delays.len().min(RETRY_DELAYS_MAX)];
                bytes.push(delays.len() as u8);
                bytes.extend_from_slice(&self.jitter_permille.to_be_bytes());
                for delay_ms in delays {
                    bytes.extend_from_slice(&delay_bytes(*delay_ms));
                }
            }
            RetrySteps::Growing {
                first_ms,
                factor,
                max_ms,
            } => {
                bytes.push(GROWING);
                bytes.extend_from_slice(&self.jitter_permille.to_be_bytes());
                bytes.extend_from_slice(&delay_bytes(*first_ms));
                bytes.extend_from_slice(&factor.to_be_bytes());
                bytes.extend_from_slice(&delay_bytes(*max_ms));
            }
        }
        bytes
    }

    fn take(fields: &mut &[u8]) -> Result<Self, InvalidRecord> {
        let [number] = take(fields)?;
        let jitter_permille = u16::from_be_bytes(take(fields)?);
        let steps = match number {
            GROWING => RetrySteps::Growing {
                first_ms: take_delay(fields)?,
                factor: f64::from_be_bytes(take(fields)?),
                max_ms: take_delay(fields)?,
            },
            number => {
                let delays = (0..number).map(|_| take_delay(fields));
                RetrySteps::Listed(delays.collect::<Result<_, _>>()?)
            }
        };
        Ok(Self {
            steps,
            jitter_permille,
        })
    }
}

fn delay_bytes(delay_ms: u64) -> [u8; 6] {
    let [_, _, bytes @ ..] = delay_ms.min(DELAY_MS_MAX).to_be_bytes();
    bytes
}

fn take_delay(fields: &mut &[u8]) -> Result<u64, InvalidRecord> {
    let bytes: [u8; 6] = take(fields)?;
    Ok(bytes.iter().fold(0, |ms, byte| ms << 8 | u64::from(*byte)))
}

fn field(record: &mut Vec<u8>, letter: u8, value: Option<&[u8]>) {
    if let Some(value) = value {
        record.push(letter);
        record.extend_from_slice(value);
    }
}

fn take<const LENGTH: usize>(fields: &mut &[u8]) -> Result<[u8; LENGTH], InvalidRecord> {
    let (value, rest) = fields
        .split_first_chunk()
        .ok_or(InvalidRecord::BadExtension)?;
    *fields = rest;
    Ok(*value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::KEY_HASH_BYTES;

    fn full() -> RecordExtension {
        RecordExtension {
            key_hash: Some([7; KEY_HASH_BYTES]),
            group_hash: Some(GroupHash([9; 8])),
            lease_ms: Some(86_400_000),
            max_attempts: Some(10),
            retry: Some(RetryDelays {
                steps: RetrySteps::Listed(vec![120_000, 600_000, DELAY_MS_MAX]),
                jitter_permille: 100,
            }),
            retain_ms: Some(604_800_000),
        }
    }

    fn encoded(extension: &RecordExtension) -> Vec<u8> {
        let mut bytes = Vec::new();
        extension.encode(&mut bytes);
        bytes
    }

    #[test]
    fn extensions_are_read_as_they_were_written() {
        let key = RecordExtension {
            key_hash: full().key_hash,
            ..RecordExtension::default()
        };
        assert_eq!(encoded(&key).len(), 14);
        let growing = RecordExtension {
            retry: Some(RetryDelays {
                steps: RetrySteps::Growing {
                    first_ms: 1000,
                    factor: 1.1,
                    max_ms: DELAY_MS_MAX,
                },
                jitter_permille: 0,
            }),
            ..full()
        };
        for extension in [full(), growing, key, RecordExtension::default()] {
            let mut bytes = encoded(&extension);
            let length = bytes.len();
            bytes.extend_from_slice(b"payload");
            assert_eq!(RecordExtension::decode(&bytes), Ok((extension, length)));
        }
    }

    #[test]
    fn the_longest_extension_fits_its_length_byte() {
        let longest = RecordExtension {
            retry: Some(RetryDelays {
                steps: RetrySteps::Listed(vec![u64::MAX; 20]),
                jitter_permille: 1000,
            }),
            ..full()
        };
        let bytes = encoded(&longest);
        assert_eq!(bytes.len(), 136);
        let (read, _) = RecordExtension::decode(&bytes).unwrap();
        assert_eq!(
            read.retry.unwrap().steps,
            RetrySteps::Listed(vec![DELAY_MS_MAX; 16])
        );
    }

    #[test]
    fn truncated_and_unknown_fields_are_rejected() {
        let bytes = encoded(&full());
        for end in 0..bytes.len() {
            let mut truncated = bytes[..end].to_vec();
            assert!(RecordExtension::decode(&truncated).is_err(), "{end}");
            if let Some(length) = truncated.first_mut() {
                *length = (end - 1) as u8;
                // A field may end here.
                let _ = RecordExtension::decode(&truncated);
            }
        }
        let unknown = RecordExtension::decode(&[2, b'X', 0]);
        assert_eq!(unknown, Err(InvalidRecord::BadExtension));
    }
}
