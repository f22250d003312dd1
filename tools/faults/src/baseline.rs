//! Lateness on this machine without faults, from which the bound of a run with faults is computed.
//!
//! A baseline run (`--baseline`) has the deployment and the traffic of a run, but no faults. It is made once for
//! each kind of deployment, and its result is stored beside the runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::deployment::Deployment;

/// The bound is this many times the lateness of the latest job in the baseline run.
const TIMES: f64 = 10.0;
/// Smallest lateness that is used, in µs: timers and the resolution of 1 ms can add as much to any delivery.
const LATEST_MIN: u64 = 10_000;

/// The result of a baseline run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Lateness of the latest delivery while the machine was not busy, in µs.
    pub latest: u64,
    /// How many times longer work took than on an idle machine, in the median second.
    pub slowdown: f64,
    /// Number of deliveries.
    pub deliveries: usize,
}

impl Baseline {
    /// For runs without a baseline run: the bound is 1 s on an idle machine. Runs beside each other take the processors
    /// from each other, so their bound is above 1 s, and they prove nothing about lateness.
    pub const UNMEASURED: Self = Self {
        latest: 100_000,
        slowdown: 1.0,
        deliveries: 0,
    };

    /// Path of the stored baseline of this deployment.
    #[must_use]
    pub fn path(folder: &Path, deployment: Deployment) -> PathBuf {
        folder.join(format!("baseline-{}.json", deployment.name()))
    }

    /// Reads the baseline in `folder`, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or is not a baseline.
    pub fn read(folder: &Path, deployment: Deployment) -> io::Result<Option<Self>> {
        match fs::read(Self::path(folder, deployment)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the baseline to `folder`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path, deployment: Deployment) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let path = Self::path(folder, deployment);
        // Renamed atomically, since another process may read it at the same time.
        let whole = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&whole, serde_json::to_vec(self)?)?;
        fs::rename(whole, path)
    }

    /// Largest allowed lateness without an excuse, in µs, if work takes `slowdown` times longer than on an idle
    /// machine.
    pub(crate) fn bound(&self, slowdown: f64) -> u64 {
        let slower = slowdown.max(1.0) / self.slowdown.max(1.0);
        (self.latest.max(LATEST_MIN) as f64 * TIMES * slower) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_ten_times_the_baseline_on_an_equally_busy_machine() {
        let baseline = Baseline {
            latest: 30_000,
            slowdown: 1.5,
            deliveries: 1000,
        };
        assert_eq!(baseline.bound(1.5), 300_000);
        assert_eq!(baseline.bound(1.0), 200_000);
        assert_eq!(baseline.bound(3.0), 600_000);
    }

    #[test]
    fn a_baseline_is_stored_for_each_deployment() {
        let folder = tempfile::tempdir().unwrap();
        let baseline = Baseline {
            latest: 30_000,
            slowdown: 1.5,
            deliveries: 1000,
        };
        baseline.write(folder.path(), Deployment::Always).unwrap();
        let read = |deployment| Baseline::read(folder.path(), deployment).unwrap();
        assert_eq!(read(Deployment::Always), Some(baseline));
        assert_eq!(read(Deployment::Cluster), None);
    }
}
