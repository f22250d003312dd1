//! The result of a job that is done, which its record has in place of the payload.
//!
//! A byte with the flags of the result comes first, then attributes and body like a payload. The seal covers that byte
//! and the nonce, but not the extension of the job: a worker returns a result without having read the record.

use bytes::Bytes;

use super::bad_record::InvalidRecord;
use super::header::RecordFlags;
use super::payload;
use crate::Attributes;

/// Encodes the result of the job with this nonce. It is compressed if it has at least `compress_from_bytes` bytes and
/// gets smaller.
pub fn encode_result(
    attributes: &Attributes,
    body: &[u8],
    nonce: u16,
    compress_from_bytes: usize,
) -> Vec<u8> {
    let (mut encoded, compressed) = payload::encode(attributes, body, compress_from_bytes);
    let flags = RecordFlags::COMPRESSED.when(compressed);
    payload::add_seal(&mut encoded, &[], flags, nonce);
    encoded.insert(0, flags.0 as u8);
    encoded
}

/// Decodes a result. The body shares memory with it unless it was compressed.
pub(super) fn decode_result(
    result: &Bytes,
    nonce: u16,
) -> Result<(Attributes, Bytes), InvalidRecord> {
    let flags = RecordFlags((*result.first().ok_or(InvalidRecord::Damaged)?).into());
    let encoded = payload::check_seal(&result.slice(1..), &[], flags, nonce)?;
    payload::decode(encoded, flags.has(RecordFlags::COMPRESSED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let attributes = vec![(":t".to_owned(), "text/plain".to_owned())];
        for body in [&b""[..], b"closed", &[b'x'; 5000]] {
            let encoded = Bytes::from(encode_result(&attributes, body, 17, 1024));
            assert_eq!(
                decode_result(&encoded, 17),
                Ok((attributes.clone(), Bytes::copy_from_slice(body)))
            );
            assert!(encoded.len() < body.len().max(100));
            assert_eq!(decode_result(&encoded, 18), Err(InvalidRecord::Damaged));
            for at in 0..encoded.len() {
                let mut damaged = encoded.to_vec();
                damaged[at] ^= 1;
                let read = decode_result(&damaged.into(), 17);
                assert!(read.is_err(), "byte {at}: {read:?}");
            }
        }
        assert_eq!(
            decode_result(&Bytes::new(), 17),
            Err(InvalidRecord::Damaged)
        );
    }
}
