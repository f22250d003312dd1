//! The payload: attributes and body, encoded with bincode, compressed with LZ4 if that makes it smaller.
//!
//! No other module uses bincode (`docs/decisions/0001-payloads.md`). The bytes, in bincode's standard configuration:
//! the number of attributes; for each, the length and the UTF-8 bytes of key and value; the length and the bytes of the
//! body. Every length is a variable-length integer.
//!
//! A payload ends with the seal: two bytes that reveal damage (`docs/decisions/0001-payloads.md`).

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bad_record::InvalidRecord;
use super::header::RecordFlags;
use crate::Attributes;

/// Maximum size of a payload that is decoded, before and after decompression, in bytes: 16 MiB.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Length of the seal, in bytes.
pub(super) const SEAL_BYTES: usize = 2;

pub(super) const FORMAT: Configuration<LittleEndian, Varint, Limit<PAYLOAD_BYTES_MAX>> =
    bincode::config::standard().with_limit::<PAYLOAD_BYTES_MAX>();

#[derive(bincode::Encode, bincode::BorrowDecode)]
struct Payload<'a> {
    attributes: Vec<(&'a str, &'a str)>,
    body: &'a [u8],
}

/// The seal of a payload, of the extension, and of the header fields that never change.
///
/// The first byte is the sum of all bytes: it detects every change of a single byte. The second byte is taken from a
/// hash: it detects 255 of 256 other changes that do not change the sum.
fn seal(payload: &[u8], extension: &[u8], flags: RecordFlags, nonce: u16) -> [u8; SEAL_BYTES] {
    let fields = u32::from(flags.fixed().0) << 16 | u32::from(nonce);
    let sum_of = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum: u8, byte| sum.wrapping_add(*byte))
    };
    let parts = [payload, extension, &fields.to_be_bytes()];
    let sum = parts
        .into_iter()
        .fold(0, |sum: u8, part| sum.wrapping_add(sum_of(part)));
    // A payload may be stored apart from its extension, so that they have two hashes.
    let seed = match extension {
        [] => fields.into(),
        extension => xxh3_64_with_seed(extension, fields.into()),
    };
    let hash = xxh3_64_with_seed(payload, seed);
    [sum, hash as u8]
}

/// Encodes a payload, and compresses it if it has at least `compress_from_bytes` bytes and gets smaller. Returns
/// whether it was compressed.
pub(super) fn encode(
    attributes: &Attributes,
    body: &[u8],
    compress_from_bytes: usize,
) -> (Vec<u8>, bool) {
    let attributes = attributes
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    let payload = Payload {
        attributes: attributes.collect(),
        body,
    };
    // Encoding into memory fails only for types that this struct does not contain.
    let plain = bincode::encode_to_vec(payload, FORMAT).unwrap_or_default();
    if plain.len() >= compress_from_bytes {
        let compressed = lz4_flex::compress_prepend_size(&plain);
        if compressed.len() < plain.len() {
            return (compressed, true);
        }
    }
    (plain, false)
}

/// Appends the seal to an encoded payload.
pub(super) fn add_seal(payload: &mut Vec<u8>, extension: &[u8], flags: RecordFlags, nonce: u16) {
    let seal = seal(payload, extension, flags, nonce);
    payload.extend_from_slice(&seal);
}

/// Checks and removes the seal of a stored payload.
pub(super) fn check_seal(
    stored: &Bytes,
    extension: &[u8],
    flags: RecordFlags,
    nonce: u16,
) -> Result<Bytes, InvalidRecord> {
    let at = stored.len().checked_sub(SEAL_BYTES);
    let payload = stored.slice(..at.ok_or(InvalidRecord::Damaged)?);
    match stored.ends_with(&seal(&payload, extension, flags, nonce)) {
        true => Ok(payload),
        false => Err(InvalidRecord::Damaged),
    }
}

/// Decodes a payload. The body shares memory with `bytes` unless it was compressed.
pub(super) fn decode(bytes: Bytes, compressed: bool) -> Result<(Attributes, Bytes), InvalidRecord> {
    let plain = if compressed {
        decompress(&bytes)?
    } else {
        bytes
    };
    let (payload, read): (Payload<'_>, usize) =
        bincode::borrow_decode_from_slice(&plain, FORMAT).map_err(|_| InvalidRecord::BadPayload)?;
    if read != plain.len() {
        return Err(InvalidRecord::BadPayload);
    }
    let attributes = payload.attributes.into_iter();
    let attributes = attributes.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let body = plain.slice_ref(payload.body);
    Ok((attributes.collect(), body))
}

fn decompress(bytes: &[u8]) -> Result<Bytes, InvalidRecord> {
    let (size, block) =
        lz4_flex::block::uncompressed_size(bytes).map_err(|_| InvalidRecord::BadPayload)?;
    // The size is read from stored bytes, which may be damaged: it must not decide how much memory is allocated.
    if size > PAYLOAD_BYTES_MAX {
        return Err(InvalidRecord::BadPayload);
    }
    let plain = lz4_flex::decompress(block, size).map_err(|_| InvalidRecord::BadPayload)?;
    Ok(plain.into())
}
