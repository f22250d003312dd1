//! How clients name a job: by its id, or by its key.

use tidegate_core::{JobId, JobState, KeyHash, KeyPlacement, QueueKey};

use crate::script_call::Call;
use crate::store::Store;

/// A job of a queue as a client names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobReference {
    Id(JobId),
    Key(KeyHash, KeyPlace),
}

/// A lane in which a key may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPlace {
    pub lane: u16,
    /// The placement by which the key may be there. The lane refuses it if it was asked with a later one.
    pub placement: KeyPlacement,
}

impl KeyPlace {
    /// The first lane of a queue that never had others.
    pub const FIRST_LANE: Self = Self {
        lane: 0,
        placement: KeyPlacement::FIRST_LANE,
    };
}

impl From<JobId> for JobReference {
    fn from(id: JobId) -> Self {
        Self::Id(id)
    }
}

impl From<KeyHash> for JobReference {
    fn from(key: KeyHash) -> Self {
        Self::Key(key, KeyPlace::FIRST_LANE)
    }
}

impl Store {
    /// The bucket of a job; `None` if the deployment has no such bucket.
    pub(crate) fn bucket_of_job(&self, queue: &QueueKey, job: JobReference) -> Option<u16> {
        match job {
            JobReference::Id(id) => self.has_bucket_of(id).then(|| id.bucket()),
            JobReference::Key(_, place) => Some(self.bucket_of(queue.lane(place.lane))),
        }
    }
}

impl Call<'_> {
    /// Adds the state in which the job must be; `None` = any.
    pub(super) fn state(self, state: Option<JobState>) -> Self {
        let number = state.map(|state| (state as u8).to_string());
        self.arg(number.unwrap_or_default())
    }

    /// Adds the three arguments that name a job.
    pub(super) fn reference(self, job: JobReference) -> Self {
        match job {
            JobReference::Id(id) => self.job(Some(id)),
            JobReference::Key(key, place) => {
                let placement = place.placement.to_string();
                self.arg("").arg(&key.0[..]).arg(placement)
            }
        }
    }
}
