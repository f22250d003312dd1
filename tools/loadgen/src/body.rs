//! Job bodies. Each contains its number and delay, so the load generator need not store them per job.
//!
//! A body is a JSON string, since a bulk publish takes JSON: `"RRRRRRRRNNNNNNNNNNNNDDDDDDDD....."` with the run
//! id, the job's number in the run and its delay in seconds, all in hexadecimal, and padding. The padding does
//! not compress, so that a server that compresses bodies gains nothing from it.

use std::io::Write;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const RUN_DIGITS: usize = 8;
const NUMBER_DIGITS: usize = 12;
const DELAY_DIGITS: usize = 8;
const LABEL_BYTES: usize = RUN_DIGITS + NUMBER_DIGITS + DELAY_DIGITS;
/// Smallest body, in bytes.
pub(crate) const BODY_BYTES_MIN: usize = LABEL_BYTES + 2;
/// Size of the decoded prefix: the quote and the label, rounded up to whole base64 groups.
const DECODED: usize = (LABEL_BYTES + 1).div_ceil(3) * 3;

/// Pseudo-random letters, the same in each run.
static PADDING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let letter = |_| {
        // Marsaglia's xorshift: its upper bits are random enough here.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        LETTERS[(state >> 58) as usize]
    };
    (0..PADDING_BYTES).map(letter).collect()
});
/// Larger than the window of any compressor.
const PADDING_BYTES: usize = 1 << 20;

/// The label in a body, which identifies its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobLabel {
    /// The run that published it.
    pub(crate) run: u32,
    /// Its number in that run, from 0.
    pub(crate) number: u64,
    /// Its delay in seconds.
    pub(crate) delay: u32,
}

impl JobLabel {
    /// Writes a body of `bytes` bytes, at least [`BODY_BYTES_MIN`].
    pub(crate) fn write(self, out: &mut Vec<u8>, bytes: usize) {
        let end = out.len() + bytes - 1;
        // Writing to a vector cannot fail.
        let _ = write!(
            out,
            "\"{:08x}{:012x}{:08x}",
            self.run, self.number, self.delay
        );
        while out.len() < end {
            let room = end - out.len();
            out.extend_from_slice(&PADDING[..room.min(PADDING_BYTES)]);
        }
        out.push(b'"');
    }

    /// Reads the label of a delivered body, in base64 as on the wire. Returns `None` if it has no label.
    pub(crate) fn read(base64: &str) -> Option<Self> {
        let begin = base64.as_bytes().get(..DECODED / 3 * 4)?;
        let mut body = [0; DECODED];
        STANDARD.decode_slice(begin, &mut body).ok()?;
        Self::parse(&body)
    }

    /// Reads the label of a body as published.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(body.strip_prefix(b"\"")?.get(..LABEL_BYTES)?).ok()?;
        let (run, rest) = text.split_at_checked(RUN_DIGITS)?;
        let (number, delay) = rest.split_at_checked(NUMBER_DIGITS)?;
        Some(Self {
            run: u32::from_str_radix(run, 16).ok()?,
            number: u64::from_str_radix(number, 16).ok()?,
            delay: u32::from_str_radix(delay, 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_a_body_is_read_back() {
        let label = JobLabel {
            run: 0xdead_beef,
            number: 10_000_000,
            delay: 86_400,
        };
        for bytes in [BODY_BYTES_MIN, 31, 32, 33, 100] {
            let mut body = Vec::new();
            label.write(&mut body, bytes);
            assert_eq!(body.len(), bytes);
            assert_eq!(
                serde_json::from_slice::<String>(&body)
                    .map(|text| text.len())
                    .unwrap(),
                bytes - 2
            );
            assert_eq!(JobLabel::read(&STANDARD.encode(&body)), Some(label));
        }
    }

    #[test]
    fn foreign_bodies_have_no_label() {
        for body in [
            "",
            "hello",
            "a body that is long enough to hold a label but has none",
        ] {
            assert_eq!(JobLabel::read(&STANDARD.encode(body)), None);
        }
    }
}
