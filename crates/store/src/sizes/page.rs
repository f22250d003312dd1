//! A page of stored sizes: JSON, compressed, with the checksum of gzip.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use tidegate_core::{JobsByState, QueueKey};

use crate::verbs::{AllQueues, ListedQueue};

/// A page ends once its rows have this many bytes, about: writing or reading one takes Redis much less than 1 ms.
const ROWS_BYTES: usize = 64 * 1024;
/// About the bytes of the numbers of a row.
const NUMBERS_BYTES: usize = 24;
/// The most bytes of a page that is decompressed, should it be damaged.
const DECODED_BYTES_MAX: u64 = 1024 * 1024;

/// A page. The figures beside its rows are sums of all queues, the same in each page.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SizesPage {
    id: String,
    number: u64,
    overdue_ms: u64,
    missing_buckets: usize,
    rows: Vec<SizesRow>,
}

/// A queue, its jobs delayed, ready, leased, dead, done, and the age of the oldest ready job in ms.
#[derive(Debug, Serialize, Deserialize)]
struct SizesRow(String, [u64; 5], Option<u64>);

impl SizesPage {
    /// The pages of all queues: at least one.
    pub(super) fn pages_of<'a>(
        all: &'a AllQueues,
        id: &'a str,
    ) -> impl Iterator<Item = Self> + use<'a> {
        let mut queues = all.queues.iter().peekable();
        let mut number = 0;
        std::iter::from_fn(move || {
            if number > 0 {
                queues.peek()?;
            }
            let (mut rows, mut bytes) = (vec![], 0);
            while bytes < ROWS_BYTES
                && let Some(listed) = queues.next()
            {
                let row = SizesRow::new(listed);
                bytes += row.0.len() + NUMBERS_BYTES;
                rows.push(row);
            }
            number += 1;
            Some(Self {
                id: id.to_owned(),
                number: number - 1,
                overdue_ms: all.overdue_ms,
                missing_buckets: all.missing_buckets,
                rows,
            })
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).expect("strings and numbers");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&json).expect("memory");
        encoder.finish().expect("memory")
    }

    /// The page with this id and number; `None` if it is another one or damaged.
    pub(super) fn decode(bytes: &[u8], id: &str, number: u64) -> Option<Self> {
        let mut json = Vec::new();
        let mut decoder = GzDecoder::new(bytes).take(DECODED_BYTES_MAX);
        decoder.read_to_end(&mut json).ok()?;
        let page: Self = serde_json::from_slice(&json).ok()?;
        let are_names = || page.rows.iter().all(|row| row.queue().is_some());
        (page.id == id && page.number == number && are_names()).then_some(page)
    }

    pub(super) fn add_to(&self, all: &mut AllQueues) {
        all.overdue_ms = self.overdue_ms;
        all.missing_buckets = self.missing_buckets;
        all.queues
            .extend(self.rows.iter().filter_map(SizesRow::listed));
    }
}

impl SizesRow {
    fn new(listed: &ListedQueue) -> Self {
        let JobsByState {
            delayed,
            ready,
            leased,
            dead,
            done,
        } = listed.stats;
        let jobs = [delayed, ready, leased, dead, done];
        Self(listed.queue.to_string(), jobs, listed.oldest_ready_ms)
    }

    fn queue(&self) -> Option<QueueKey> {
        QueueKey::try_from(self.0.as_str()).ok()
    }

    fn listed(&self) -> Option<ListedQueue> {
        let [delayed, ready, leased, dead, done] = self.1;
        Some(ListedQueue {
            queue: self.queue()?,
            stats: JobsByState {
                delayed,
                ready,
                leased,
                dead,
                done,
            },
            oldest_ready_ms: self.2,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(queues: usize) -> AllQueues {
        let listed = |number: usize| ListedQueue {
            queue: QueueKey::try_from(format!("shop/q{number}").as_str()).unwrap(),
            stats: JobsByState {
                ready: number as u64,
                ..JobsByState::default()
            },
            oldest_ready_ms: number.is_multiple_of(2).then_some(7),
        };
        AllQueues {
            queues: (0..queues).map(listed).collect(),
            overdue_ms: 5,
            missing_buckets: 2,
            error: None,
        }
    }

    #[test]
    fn pages_return_what_was_collected() {
        for queues in [0, 1, 10_000] {
            let all = all(queues);
            let mut read = AllQueues::default();
            let mut count = 0;
            for (number, page) in (0..).zip(SizesPage::pages_of(&all, "x")) {
                let page = page.encode();
                assert!(page.len() < ROWS_BYTES, "{}", page.len());
                SizesPage::decode(&page, "x", number)
                    .unwrap()
                    .add_to(&mut read);
                count += 1;
            }
            assert_eq!(count == 1, queues < 10_000, "{count} pages");
            assert_eq!(read.queues, all.queues);
            assert_eq!((read.overdue_ms, read.missing_buckets), (5, 2));
        }
    }

    #[test]
    fn a_page_that_is_damaged_or_another_one_is_not_read() {
        let all = all(100);
        let page = SizesPage::pages_of(&all, "x").next().unwrap().encode();
        assert!(SizesPage::decode(&page, "y", 0).is_none());
        assert!(SizesPage::decode(&page, "x", 1).is_none());
        assert!(SizesPage::decode(&page[..page.len() - 1], "x", 0).is_none());
        // The header of gzip, and the last bits of its data, have bits without meaning.
        for at in 0..page.len() {
            let mut damaged = page.clone();
            damaged[at] ^= 16;
            let read = SizesPage::decode(&damaged, "x", 0);
            let is_same = read.is_none_or(|read| read.encode() == page);
            assert!(is_same, "byte {at}");
        }
    }
}
