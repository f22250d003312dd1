//! The payloads of this deployment that are in the cold tier.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use prometheus::{IntCounterVec, register_int_counter_vec};
use tidegate_cold::ColdObjects;
use tidegate_core::{ColdReference, JobId};

use crate::call_metrics::REGISTERED_ONCE;
use crate::cold_tier::ReadFailure;
use crate::store::Store;

/// Payloads that calls have read from the object store, since they were not back.
static READS: LazyLock<IntCounterVec> = LazyLock::new(|| {
    let reads = register_int_counter_vec!(
        "tidegate_cold_reads_total",
        "Number of payloads that were read from the cold tier for a call, or could not be read: ok, failed, or damaged.",
        &["outcome"]
    );
    reads.expect(REGISTERED_ONCE)
});

impl Store {
    /// The cold tier of this deployment, if the settings name one.
    pub fn cold_objects(&self) -> Option<&ColdObjects> {
        self.inner.cold.get()?.objects.as_ref()
    }

    /// Whether payloads are frozen; otherwise all come back.
    pub fn freezes(&self) -> bool {
        self.inner.config.cold_freeze
    }

    /// The pause between two looks at far jobs.
    pub fn cold_interval(&self) -> Duration {
        self.inner.config.cold_interval
    }

    /// For how long segments stay that no job refers to.
    pub fn cold_keep(&self) -> Duration {
        self.inner.config.cold_keep
    }

    /// After how many ms jobs are due again whose payloads cannot be read, if the cold tier has just failed.
    pub(crate) fn cold_postponement_ms(&self) -> Option<u64> {
        self.inner.cold.get()?.postponement_ms()
    }

    /// Reads the payload of a job from the cold tier. The error says why that is not possible now.
    pub(crate) async fn read_cold_payload(
        &self,
        id: JobId,
        reference: ColdReference,
    ) -> Result<Bytes, String> {
        let Some(cold) = self.inner.cold.get() else {
            return Err("this process is not connected yet".to_owned());
        };
        let read = cold.read(id, reference).await;
        let (outcome, read) = match read {
            Ok(payload) => ("ok", Ok(payload)),
            Err(ReadFailure::Failed(why)) => ("failed", Err(why)),
            Err(ReadFailure::Damaged(why)) => ("damaged", Err(why)),
        };
        READS.with_label_values(&[outcome]).inc();
        read
    }
}
