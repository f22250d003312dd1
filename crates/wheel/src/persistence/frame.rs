//! Frames: a frame is the part of the file that one write appends. A frame is complete, or was never confirmed.
//!
//! ```text
//! length  4 bytes, of the records
//! check   4 bytes, of the length
//! hash    8 bytes, XXH3-64 of the records
//! records
//! ```
//!
//! A record is `S`, id (16 bytes), due time in ms since 1970 (8), length of the type (1), type, length of the payload
//! (4), payload; or `D`, id. Numbers are big-endian.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64;

use super::saved_task::SavedTask;
use crate::task::TaskId;

const HEADER_BYTES: usize = 16;

/// A change of the saved tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Save(SavedTask),
    Delete(TaskId),
}

/// The begin of the rest of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextFrame<'a> {
    Complete {
        records: &'a [u8],
        rest: &'a [u8],
    },
    /// The process ended while it wrote the last frame.
    Torn,
    Damaged,
}

/// Makes a frame of records.
pub(super) fn frame(records: &[u8]) -> Vec<u8> {
    let length = u32::try_from(records.len()).expect("a frame is bounded");
    let mut frame = Vec::with_capacity(HEADER_BYTES + records.len());
    frame.extend(length.to_be_bytes());
    frame.extend(check_of(length).to_be_bytes());
    frame.extend(xxh3_64(records).to_be_bytes());
    frame.extend(records);
    frame
}

/// Zeros at the end of a frame that show that it was not written.
const UNWRITTEN_BYTES: usize = 16;

pub(super) fn next_frame(file: &[u8]) -> NextFrame<'_> {
    let Some((header, body)) = file.split_first_chunk::<HEADER_BYTES>() else {
        return NextFrame::Torn;
    };
    let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|it| header[at + it]));
    let length = number(0);
    if number(4) != check_of(length) {
        // A file system may make a file longer before it writes to it.
        let is_empty = file.iter().all(|byte| *byte == 0);
        return if is_empty {
            NextFrame::Torn
        } else {
            NextFrame::Damaged
        };
    }
    let Some((records, rest)) = body.split_at_checked(length as usize) else {
        return NextFrame::Torn;
    };
    let hash = u64::from(number(8)) << 32 | u64::from(number(12));
    match xxh3_64(records) == hash {
        true => NextFrame::Complete { records, rest },
        false if rest.is_empty() && is_unwritten(records) => NextFrame::Torn,
        false => NextFrame::Damaged,
    }
}

/// Whether the end of a frame was not written: a file system may make a file longer before it writes to it. Records do
/// not end with so many zeros.
fn is_unwritten(records: &[u8]) -> bool {
    let end = records.len().saturating_sub(UNWRITTEN_BYTES);
    records[end..].iter().all(|byte| *byte == 0)
}

fn check_of(length: u32) -> u32 {
    xxh3_64(&length.to_be_bytes()) as u32
}

/// Appends a record.
pub(super) fn encode(change: &Change, records: &mut Vec<u8>) {
    match change {
        Change::Save(task) => {
            let due = task.due.duration_since(UNIX_EPOCH).unwrap_or_default();
            records.push(b'S');
            records.extend(task.id.to_bytes());
            records.extend((due.as_millis() as u64).to_be_bytes());
            records.push(task.task_type.len() as u8);
            records.extend(task.task_type.as_bytes());
            records.extend((task.payload.len() as u32).to_be_bytes());
            records.extend(&*task.payload);
        }
        Change::Delete(id) => {
            records.push(b'D');
            records.extend(id.to_bytes());
        }
    }
}

/// Reads all records of a frame; `None` = they are not valid.
pub(super) fn decode(records: &[u8]) -> Option<Vec<Change>> {
    let mut reader = RecordReader(records);
    let mut changes = Vec::new();
    while !reader.0.is_empty() {
        changes.push(reader.change()?);
    }
    Some(changes)
}

struct RecordReader<'a>(&'a [u8]);

impl<'a> RecordReader<'a> {
    fn change(&mut self) -> Option<Change> {
        let kind = self.array::<1>()?;
        let id = TaskId::from_bytes(self.array()?);
        match &kind {
            b"D" => Some(Change::Delete(id)),
            b"S" => {
                let due = Duration::from_millis(u64::from_be_bytes(self.array()?));
                let [length] = self.array()?;
                let task_type = std::str::from_utf8(self.bytes(usize::from(length))?).ok()?;
                let length = u32::from_be_bytes(self.array()?);
                let payload = self.bytes(length as usize)?;
                Some(Change::Save(SavedTask {
                    id,
                    task_type: Arc::from(task_type),
                    due: UNIX_EPOCH.checked_add(due)?,
                    payload: Arc::from(payload),
                }))
            }
            _ => None,
        }
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}
