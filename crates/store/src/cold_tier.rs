//! The object store of the cold tier, for calls that need a payload now.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_cold::{ColdError, ColdObjects};
use tidegate_core::{ColdReference, JobId};
use tokio::time::timeout;

use crate::config::StoreConfig;

/// After a failure no call asks the object store for this long: each would wait for its time limit, and so would the
/// calls behind it.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
/// Time limit of a read with all its requests: the job is leased meanwhile (`COLD_LEASE_MS` in `lua/reserve.lua`).
const READ_MAX: Duration = Duration::from_secs(3);
/// A failure that is followed by none for so long is over, although nothing was read since.
const OUTAGE_PAUSE_MAX: Duration = Duration::from_secs(120);
/// After this time at least, and at most, a job is due again whose payload could not be read.
const POSTPONEMENT: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

/// The object store, and since when it fails.
#[derive(Debug)]
pub(crate) struct ColdTier {
    /// `None` = the settings name none.
    pub(crate) objects: Option<ColdObjects>,
    outage: Mutex<Option<Outage>>,
}

/// Reads fail, and none has succeeded in between.
#[derive(Debug, Clone)]
struct Outage {
    since: Instant,
    last: Instant,
    why: String,
}

impl ColdTier {
    /// Opens the cold tier of a deployment.
    pub(crate) fn open(config: &StoreConfig, deployment_id: &str) -> Result<Self, ColdError> {
        let url = config.cold_url.as_deref();
        let objects = url.map(|url| ColdObjects::open(url, deployment_id));
        Ok(Self {
            objects: objects.transpose()?,
            outage: Mutex::default(),
        })
    }

    pub(crate) async fn read(
        &self,
        id: JobId,
        reference: ColdReference,
    ) -> Result<Bytes, ReadFailure> {
        if let Some(outage) = self.recent_outage() {
            return Err(ReadFailure::Failed(outage.why));
        }
        let Some(objects) = &self.objects else {
            let why = "this process has no cold_url: set it as in the other processes";
            return Err(self.failed(why.to_owned()));
        };
        let reading = async {
            let read = objects.read_payload(id, reference).await;
            match read {
                // A folder that is not mounted has no objects.
                Err(ColdError::Missing(_)) => objects.check_marker(false).await.and(read),
                read => read,
            }
        };
        let read = timeout(READ_MAX, reading).await;
        match read.unwrap_or(Err(ColdError::TimedOut(READ_MAX))) {
            Err(error) if !error.is_lasting() => Err(self.failed(error.to_string())),
            read => {
                *self.outage() = None;
                read.map_err(|error| ReadFailure::Damaged(error.to_string()))
            }
        }
    }

    /// After how many ms jobs are due again whose payloads cannot be read, if the object store has just failed. The longer
    /// it fails, the longer: each of these jobs is postponed again and again.
    pub(crate) fn postponement_ms(&self) -> Option<u64> {
        Some(postponement_ms(self.recent_outage()?.since.elapsed()))
    }

    fn recent_outage(&self) -> Option<Outage> {
        let outage = self.outage();
        let recent = outage
            .as_ref()
            .filter(|outage| outage.last.elapsed() < FAILURE_PAUSE);
        recent.cloned()
    }

    fn failed(&self, why: String) -> ReadFailure {
        let now = Instant::now();
        let mut outage = self.outage();
        let goes_on = outage
            .as_ref()
            .filter(|it| it.last.elapsed() < OUTAGE_PAUSE_MAX);
        let since = goes_on.map_or(now, |outage| outage.since);
        *outage = Some(Outage {
            since,
            last: now,
            why: why.clone(),
        });
        ReadFailure::Failed(why)
    }

    fn outage(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// After how many ms a job is due again whose payload cannot be read, if none can be read for so long.
pub(crate) fn postponement_ms(outage: Duration) -> u64 {
    let [least, most] = POSTPONEMENT;
    (outage / 4).clamp(least, most).as_millis() as u64
}

/// Why a payload cannot be read.
pub(crate) enum ReadFailure {
    /// The object store failed.
    Failed(String),
    /// The payload is not there.
    Damaged(String),
}
