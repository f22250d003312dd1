//! What lateness is on this machine when nothing is done to anybody: the measure of what is late in a run with faults.
//!
//! A yardstick run has the deployment and the traffic of a run, and no faults. It is made once for each kind of
//! deployment and kept beside the runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::Deployment;

/// How many times later than the latest job of the yardstick run a job may be.
const TIMES: f64 = 10.0;
/// What a timer and a ms that is not told apart can add to any delivery, in µs. Less than this is not measured.
const LATEST_MIN: u64 = 10_000;

/// What a yardstick run has shown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The latest delivery while the machine was not busy, in µs.
    pub latest: u64,
    /// How many times longer than on an idle machine work took.
    pub slowdown: f64,
    /// How many deliveries there were.
    pub deliveries: usize,
}

impl Baseline {
    /// Where the yardstick of this deployment is kept.
    #[must_use]
    pub fn path(folder: &Path, deployment: Deployment) -> PathBuf {
        folder.join(format!("yardstick-{}.json", deployment.name()))
    }

    /// The one that is kept in `folder`, if there is one.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(folder: &Path, deployment: Deployment) -> io::Result<Option<Self>> {
        match fs::read(Self::path(folder, deployment)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps it in `folder`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path, deployment: Deployment) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let path = Self::path(folder, deployment);
        // Another process may read it at the same time.
        let whole = path.with_extension(format!("{}.tmp", std::process::id()));
        fs::write(&whole, serde_json::to_vec(self)?)?;
        fs::rename(whole, path)
    }

    /// How late a job may be where nothing excuses it, in µs, while work takes so many times longer than on an idle
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
    fn a_bound_is_ten_times_the_yardstick_on_a_machine_as_busy() {
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
    fn a_yardstick_is_kept_for_each_deployment() {
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
