//! How large publishes are.

use std::ops::{AddAssign, Mul, SubAssign};

use tidegate_core::NewJob;

/// A number of jobs, and the size of their payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size {
    pub(crate) jobs: usize,
    /// Bodies and attributes.
    pub(crate) bytes: usize,
}

impl Size {
    /// The size of a publish.
    pub(crate) fn of(jobs: &[NewJob]) -> Self {
        Self {
            jobs: jobs.len(),
            bytes: jobs.iter().map(NewJob::payload_bytes).sum(),
        }
    }

    /// Whether it is above the limit in jobs or in bytes.
    pub(crate) const fn exceeds(self, limit: Self) -> bool {
        self.jobs > limit.jobs || self.bytes > limit.bytes
    }

    /// Whether it has at least so many jobs or so many bytes.
    pub(crate) const fn reaches(self, other: Self) -> bool {
        self.jobs >= other.jobs || self.bytes >= other.bytes
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.bytes += other.bytes;
    }
}

impl SubAssign for Size {
    fn sub_assign(&mut self, other: Self) {
        self.jobs -= other.jobs;
        self.bytes -= other.bytes;
    }
}

impl Mul<usize> for Size {
    type Output = Self;

    fn mul(self, times: usize) -> Self {
        Self {
            jobs: self.jobs * times,
            bytes: self.bytes * times,
        }
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
            versioned_id: false,
        };
        let size = Size::of(&[job.clone(), job]);
        assert_eq!(size, Size { jobs: 2, bytes: 26 });
    }
}
