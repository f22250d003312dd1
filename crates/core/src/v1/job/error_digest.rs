//! Digests of errors, by which jobs with the same last error are found.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// Identifies a last error: its text, or that no error is known. Half of a SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorDigest(u128);

impl ErrorDigest {
    /// The digest of the last error of a job.
    pub fn of(error: Option<&str>) -> Self {
        let digest = Sha256::new()
            .chain_update([u8::from(error.is_some())])
            .chain_update(error.unwrap_or_default())
            .finalize();
        let first = digest[..size_of::<u128>()].iter();
        Self(first.fold(0, |digest, byte| digest << 8 | u128::from(*byte)))
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for ErrorDigest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

impl FromStr for ErrorDigest {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u128::from_str_radix(text, 16).map(Self)
    }
}
