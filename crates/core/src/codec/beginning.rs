//! The beginning of a payload: the attributes, and how long the body is. Lists show no more, so they do not read the
//! rest of a large payload.
//!
//! A block of LZ4 can be decompressed from its beginning on. `lz4_flex` decompresses whole blocks only.

use super::bad_record::InvalidRecord;
use super::payload::{FORMAT, PAYLOAD_BYTES_MAX};
use crate::Attributes;

/// Attributes of more bytes than this are not read from a compressed beginning. It bounds the memory that a few bytes
/// take.
const PLAIN_BYTES_MAX: usize = 64 * 1024;
/// The shortest repetition in a block.
const REPETITION_MIN: usize = 4;

/// Decodes the attributes and the length of the body, in bytes, from a payload of which perhaps only the beginning is
/// there. The seal is not checked, so damage may be unnoticed.
pub(super) fn decode(payload: &[u8], compressed: bool) -> Result<(Attributes, u64), InvalidRecord> {
    if !compressed {
        let (attributes, body_bytes, _) = decode_plain(payload)?;
        return Ok((attributes, body_bytes));
    }
    let bad = |_| InvalidRecord::BadPayload;
    let (size, block) = lz4_flex::block::uncompressed_size(payload).map_err(bad)?;
    let plain = decompress(block).ok_or(InvalidRecord::BadPayload)?;
    let (attributes, body_bytes, read) = decode_plain(&plain)?;
    match read as u64 + body_bytes == size as u64 {
        true => Ok((attributes, body_bytes)),
        false => Err(InvalidRecord::BadPayload),
    }
}

/// The attributes, the length of the body, and how many bytes they take.
fn decode_plain(plain: &[u8]) -> Result<(Attributes, u64, usize), InvalidRecord> {
    type Encoded<'a> = (Vec<(&'a str, &'a str)>, u64);
    let ((attributes, body_bytes), read): (Encoded<'_>, usize) =
        bincode::borrow_decode_from_slice(plain, FORMAT).map_err(|_| InvalidRecord::BadPayload)?;
    if body_bytes > PAYLOAD_BYTES_MAX as u64 {
        return Err(InvalidRecord::BadPayload);
    }
    let attributes = attributes.into_iter();
    let attributes = attributes.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Ok((attributes.collect(), body_bytes, read))
}

/// The first bytes of a block of which perhaps only the beginning is there; `None` if it is damaged.
///
/// A block has sequences: a byte with two lengths, literals, and the distance back to a repetition (two bytes). Further
/// bytes follow a length of 15, up to the first byte other than 255. The last sequence ends with its literals.
fn decompress(mut block: &[u8]) -> Option<Vec<u8>> {
    let mut plain: Vec<u8> = Vec::new();
    while let Some((lengths, rest)) = block.split_first() {
        block = rest;
        let literals = length(lengths >> 4, &mut block).min(block.len());
        plain.extend_from_slice(&block[..literals]);
        let Some((distance, rest)) = block[literals..].split_first_chunk() else {
            break;
        };
        block = rest;
        let distance = usize::from(u16::from_le_bytes(*distance));
        let repeated = REPETITION_MIN + length(lengths & 15, &mut block);
        let room = PLAIN_BYTES_MAX.saturating_sub(plain.len());
        let first = plain.len().checked_sub(distance).filter(|_| distance > 0)?;
        // A repetition may repeat itself.
        for at in first..first + repeated.min(room) {
            plain.push(plain[at]);
        }
        if repeated >= room {
            break;
        }
    }
    Some(plain)
}

/// A length that begins with these four bits. If the block is cut within it, it is too small.
fn length(bits: u8, block: &mut &[u8]) -> usize {
    let mut length = usize::from(bits);
    let mut last = if bits == 15 { 255 } else { 0 };
    while let (255, Some((byte, rest))) = (last, block.split_first()) {
        length += usize::from(*byte);
        (last, *block) = (*byte, rest);
    }
    length
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::payload;
    use super::*;

    fn attributes() -> impl Strategy<Value = Attributes> {
        prop::collection::vec(("[a-z]{1,8}", "[a-c]{0,300}"), 0..6)
    }

    /// Random bytes, and bytes that can be compressed, with repetitions that repeat themselves.
    fn body() -> impl Strategy<Value = Vec<u8>> {
        let part = (prop::collection::vec(any::<u8>(), 1..40), 1_usize..200);
        let parts = prop::collection::vec(part, 0..12);
        parts.prop_map(|parts| {
            let parts = parts.iter().map(|(bytes, times)| bytes.repeat(*times));
            parts.collect::<Vec<_>>().concat()
        })
    }

    proptest! {
        #[test]
        fn a_beginning_has_what_the_whole_has(attributes in attributes(), body in body(), kept in 0.0..1.0_f64) {
            for compress_from_bytes in [0, usize::MAX] {
                let (encoded, compressed) = payload::encode(&attributes, &body, compress_from_bytes);
                let whole = decode(&encoded, compressed);
                prop_assert_eq!(&whole, &Ok((attributes.clone(), body.len() as u64)));
                let cut = &encoded[..(encoded.len() as f64 * kept) as usize];
                // Too little may be kept to know it.
                let beginning = decode(cut, compressed);
                prop_assert!(beginning.is_err() || beginning == whole);
            }
        }

        #[test]
        fn a_cut_block_is_a_beginning(body in body(), kept in 0.0..1.0_f64) {
            let block = lz4_flex::compress(&body);
            let most = body.len().min(PLAIN_BYTES_MAX);
            prop_assert_eq!(&decompress(&block).unwrap()[..most], &body[..most]);
            let cut = decompress(&block[..(block.len() as f64 * kept) as usize]).unwrap();
            let most = cut.len().min(PLAIN_BYTES_MAX);
            prop_assert_eq!(&cut[..most], &body[..most]);
        }
    }

    #[test]
    fn a_few_bytes_do_not_become_many() {
        // A repetition of 255 KiB.
        let block = [&[0x1f, b'a', 1, 0][..], &[255; 1024]].concat();
        assert_eq!(decompress(&block).unwrap().len(), PLAIN_BYTES_MAX);
        assert_eq!(decompress(&[0x10, b'a', 0, 0]), None);
        assert_eq!(decompress(&[0x10, b'a', 2, 0]), None);
    }
}
