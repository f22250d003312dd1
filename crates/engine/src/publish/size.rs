//! The size of publishes.

use std::ops::{AddAssign, SubAssign};

use tidegate_core::NewJob;

/// A publish with more bytes of bodies and attributes has its own call, as it would delay the others in a batch.
pub(super) const BATCHED_BYTES_MAX: usize = 16 * 1024;

/// A number of jobs, and the total size of their payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublishSize {
    /// Number of jobs.
    pub jobs: usize,
    /// Bytes of bodies and attributes.
    pub bytes: usize,
}

impl PublishSize {
    /// The size of a publish.
    pub fn of<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> Self {
        let mut size = Self::default();
        for job in jobs {
            size += Self {
                jobs: 1,
                bytes: job.payload_bytes(),
            };
        }
        size
    }

    /// Whether it exceeds the limit in jobs or in bytes.
    pub const fn exceeds(self, limit: Self) -> bool {
        self.jobs > limit.jobs || self.bytes > limit.bytes
    }

    /// Whether it has at least as many jobs, or at least as many bytes, as `times` times `other`.
    pub const fn reaches(self, other: Self, times: usize) -> bool {
        self.jobs >= other.jobs * times || self.bytes >= other.bytes * times
    }
}

impl AddAssign for PublishSize {
    fn add_assign(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.bytes += other.bytes;
    }
}

impl SubAssign for PublishSize {
    fn sub_assign(&mut self, other: Self) {
        self.jobs -= other.jobs;
        self.bytes -= other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publish_has_the_size_of_its_bodies_and_attributes() {
        let job = NewJob {
            body: "12345".into(),
            attributes: vec![("key".to_owned(), "value".to_owned())],
            delay_ms: 0,
            ttl_ms: 0,
            tries: 1,
            mark: false,
            native: None,
        };
        let size = PublishSize::of(&[job.clone(), job]);
        assert_eq!(size, PublishSize { jobs: 2, bytes: 26 });
    }
}
