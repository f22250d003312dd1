//! The format of a segment, version 1. Numbers are big-endian.
//!
//! | bytes | |
//! |---|---|
//! | 16 | `tidegate cold 1` and a line feed |
//! | then for each entry: 16 | the id of the job |
//! | 4 | length of the payload |
//! | | the payload as Redis had it: sealed, perhaps compressed |
//! | 8 | XXH3-64 over the entry up to here |
//!
//! The name of the segment says how many entries there are, so that an object that was cut is noticed.

use bytes::Bytes;
use tidegate_core::{COLD_ENTRY_BYTES_MAX, ColdReference, JobId, Partition, SegmentName};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::ColdError;

const MAGIC: &[u8; 16] = b"tidegate cold 1\n";
const ID_BYTES: usize = 16;
const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = ID_BYTES + LENGTH_BYTES;
const CHECKSUM_BYTES: usize = 8;
/// Most entries that the name of a segment can count.
const ENTRIES_MAX: usize = (1 << 24) - 1;

/// A payload, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColdPayload {
    pub id: JobId,
    pub reference: ColdReference,
    pub payload: Bytes,
}

/// An object to be written.
#[derive(Debug, Clone)]
pub struct Segment {
    pub name: SegmentName,
    pub bytes: Bytes,
    /// The references to its entries, in their order.
    pub references: Vec<ColdReference>,
}

/// Collects payloads of jobs that are due in one partition.
#[derive(Debug, Clone)]
pub struct SegmentBuilder {
    bytes: Vec<u8>,
    /// Where each entry begins.
    offsets: Vec<u32>,
}

impl Default for SegmentBuilder {
    fn default() -> Self {
        Self {
            bytes: MAGIC.to_vec(),
            offsets: Vec::new(),
        }
    }
}

impl SegmentBuilder {
    /// Adds the payload of a job. Returns whether there was room: an entry has less than 16 MiB, and begins within the
    /// first 4 GiB.
    #[must_use]
    pub fn push(&mut self, id: JobId, payload: &[u8]) -> bool {
        let is_short = payload.len() <= COLD_ENTRY_BYTES_MAX - HEAD_BYTES - CHECKSUM_BYTES;
        let Ok(offset) = u32::try_from(self.bytes.len()) else {
            return false;
        };
        if !is_short || self.offsets.len() == ENTRIES_MAX {
            return false;
        }
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&id.to_bytes());
        let length = payload.len() as u32;
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(payload);
        let checksum = xxh3_64(&self.bytes[begin..]);
        self.bytes.extend_from_slice(&checksum.to_be_bytes());
        self.offsets.push(offset);
        true
    }

    /// Completes the segment with this random number.
    pub fn finish(self, partition: Partition, number: u32) -> Segment {
        let name = SegmentName {
            partition,
            number,
            entries: self.offsets.len() as u32,
        };
        let end = self.bytes.len() as u32;
        let ends = self.offsets.iter().skip(1).chain([&end]);
        let references = self.offsets.iter().zip(ends);
        let references = references.map(|(offset, end)| ColdReference {
            segment: name,
            offset: *offset,
            bytes: end - offset,
        });
        Segment {
            name,
            references: references.collect(),
            bytes: self.bytes.into(),
        }
    }
}

/// The entries of a segment, in their order. Behind an entry whose length is damaged no other one is found: the last
/// item is that error then.
pub fn read_entries(
    name: SegmentName,
    bytes: &Bytes,
) -> impl Iterator<Item = Result<ColdPayload, ColdError>> {
    let mut at = MAGIC.len();
    let mut left = name.entries;
    let is_segment = bytes.starts_with(MAGIC);
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        left -= 1;
        let length = is_segment.then(|| entry_bytes(bytes, at)).flatten();
        let Some(length) = length else {
            left = 0;
            return Some(Err(damaged(name, "it ends early, or is no segment")));
        };
        let entry = bytes.slice(at..at + length);
        let reference = ColdReference {
            segment: name,
            offset: at as u32,
            bytes: length as u32,
        };
        at += length;
        Some(read_entry(reference, &entry))
    })
}

/// The payload in the bytes of one entry.
pub(crate) fn read_entry(
    reference: ColdReference,
    entry: &Bytes,
) -> Result<ColdPayload, ColdError> {
    let name = reference.segment;
    if entry_bytes(entry, 0) != Some(entry.len()) {
        return Err(damaged(name, "an entry has another length"));
    }
    let (checked, checksum) = entry.split_at(entry.len() - CHECKSUM_BYTES);
    if xxh3_64(checked).to_be_bytes() != checksum {
        return Err(damaged(name, "the checksum of an entry does not match"));
    }
    let id = entry.first_chunk::<ID_BYTES>().copied().unwrap_or_default();
    Ok(ColdPayload {
        id: JobId::from_bytes(id),
        reference,
        payload: entry.slice(HEAD_BYTES..entry.len() - CHECKSUM_BYTES),
    })
}

/// Length of the entry that begins here, if all of it is there.
fn entry_bytes(bytes: &[u8], at: usize) -> Option<usize> {
    let length = bytes.get(at + ID_BYTES..at + HEAD_BYTES)?;
    let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
    let entry_bytes = HEAD_BYTES + length + CHECKSUM_BYTES;
    (at + entry_bytes <= bytes.len()).then_some(entry_bytes)
}

fn damaged(name: SegmentName, how: &'static str) -> ColdError {
    ColdError::Damaged {
        object: name.to_string(),
        how,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(payloads: &[&[u8]]) -> Segment {
        let mut builder = SegmentBuilder::default();
        for (number, payload) in (0..).zip(payloads) {
            assert!(builder.push(JobId::new(7, 3, number, 9), payload));
        }
        builder.finish(Partition(5), 17)
    }

    fn read(segment: &Segment, bytes: &Bytes) -> Vec<Result<ColdPayload, String>> {
        let entries = read_entries(segment.name, bytes);
        let entries = entries.map(|entry| entry.map_err(|error| error.to_string()));
        entries.collect()
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let segment = segment(&[b"first", b"", &[7; 70_000]]);
        assert_eq!(segment.name.entries, 3);
        let entries = read(&segment, &segment.bytes);
        for ((number, entry), reference) in (0..).zip(&entries).zip(&segment.references) {
            let entry = entry.as_ref().unwrap();
            assert_eq!(entry.id, JobId::new(7, 3, number, 9));
            assert_eq!(entry.reference, *reference);
            let begin = reference.offset as usize;
            let bytes = segment.bytes.slice(begin..begin + reference.bytes as usize);
            assert_eq!(read_entry(*reference, &bytes).unwrap(), *entry);
        }
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[0].as_ref().unwrap().payload, "first");
    }

    #[test]
    fn damage_of_any_byte_is_noticed() {
        let whole = segment(&[b"first", b"second"]);
        for at in 0..whole.bytes.len() {
            let mut bytes = whole.bytes.to_vec();
            bytes[at] ^= 0x11;
            let entries = read(&whole, &bytes.into());
            assert!(entries.iter().any(Result::is_err), "byte {at}");
        }
    }

    #[test]
    fn an_object_that_was_cut_is_noticed_and_its_begin_is_read() {
        let whole = segment(&[b"first", b"second"]);
        for length in 0..whole.bytes.len() {
            let entries = read(&whole, &whole.bytes.slice(..length));
            assert!(entries.last().unwrap().is_err(), "{length} bytes");
            let has_first = length >= whole.references[1].offset as usize;
            assert_eq!(entries[0].is_ok(), has_first, "{length} bytes");
        }
    }

    #[test]
    fn an_entry_that_is_too_long_is_refused() {
        let mut builder = SegmentBuilder::default();
        let longest = COLD_ENTRY_BYTES_MAX - HEAD_BYTES - CHECKSUM_BYTES;
        let id = JobId::new(1, 2, 3, 4);
        assert!(!builder.push(id, &vec![0; longest + 1]));
        assert!(builder.push(id, &vec![0; longest]));
        let segment = builder.finish(Partition(1), 1);
        assert_eq!(segment.references[0].bytes as usize, COLD_ENTRY_BYTES_MAX);
    }
}
