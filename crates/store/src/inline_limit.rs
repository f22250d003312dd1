//! Which payloads are stored in their records, and which outside of them.

use tidegate_core::NewJob;

use crate::store::Store;

/// The largest payload that is stored in the record of a job. Records of jobs whose payloads will go to the cold tier are
/// stored without them from the start: a chunk has room for a hundred such records, and for seven with a payload of 1 KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InlineLimit {
    usual_bytes: usize,
    far_bytes: usize,
    /// Jobs with this delay are far.
    from_delay_ms: u64,
    /// Jobs that run at this time are far, in ms since 1970.
    from_run_at_ms: u64,
}

impl InlineLimit {
    /// The limit of a job, in bytes.
    pub(crate) fn of(&self, job: &NewJob) -> usize {
        let is_far = match job.run_at_ms() {
            Some(run_at_ms) => run_at_ms >= self.from_run_at_ms,
            None => job.delay_ms >= self.from_delay_ms,
        };
        if is_far {
            self.far_bytes
        } else {
            self.usual_bytes
        }
    }
}

impl Store {
    /// The limits of jobs that are published now in this bucket.
    pub(crate) fn inline_limit(&self, bucket: u16) -> InlineLimit {
        let config = &self.inner.config;
        let usual_bytes = config.inline_limit_bytes;
        // Pumps look at jobs that are due in hours in each 4th pass.
        let after = config.cold_after + 4 * config.cold_interval;
        let is_cold = config.cold_url.is_some() && config.cold_freeze;
        let from_run_at_ms = || {
            let server = self.inner.link.server_of(self.keys(bucket).prefix())?;
            server.clock.after(after)
        };
        InlineLimit {
            usual_bytes,
            far_bytes: usual_bytes.min(config.cold_payload_bytes_min.saturating_sub(1)),
            from_delay_ms: match is_cold {
                true => u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                false => u64::MAX,
            },
            from_run_at_ms: is_cold.then(from_run_at_ms).flatten().unwrap_or(u64::MAX),
        }
    }
}
