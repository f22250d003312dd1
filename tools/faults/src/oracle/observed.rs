//! Everything that was observed of jobs, by version, job and key.

use std::collections::BTreeMap;

use super::job::JobHistory;
use super::version::VersionHistory;

#[derive(Debug, Default)]
pub(super) struct Observed<'a> {
    /// By number.
    pub(super) versions: BTreeMap<u64, VersionHistory<'a>>,
    /// By id.
    pub(super) jobs: BTreeMap<String, JobHistory>,
    /// The numbers of the versions of each key, by queue and number of the key.
    pub(super) keys: BTreeMap<(u16, u32), Vec<u64>>,
}

impl Observed<'_> {
    /// Returns the version of a job that has no key, by its first delivery or its publish.
    pub(super) fn version_of(&self, job: &JobHistory) -> Option<&VersionHistory<'_>> {
        self.versions
            .get(&job.version)
            .filter(|_| job.key.is_none())
    }

    /// Returns the versions of a key, in the order of their first requests.
    pub(super) fn versions_of_key(
        &self,
        queue: u16,
        key: u32,
    ) -> impl Iterator<Item = &VersionHistory<'_>> {
        let numbers = self.keys.get(&(queue, key)).into_iter().flatten();
        numbers.filter_map(|number| self.versions.get(number))
    }

    /// Returns the other versions of the key of a version.
    pub(super) fn rivals(
        &self,
        version: &VersionHistory<'_>,
    ) -> impl Iterator<Item = &VersionHistory<'_>> {
        let (queue, number) = (version.queue, version.spec.number);
        let key = version.spec.key.into_iter();
        key.flat_map(move |key| self.versions_of_key(queue, key))
            .filter(move |other| other.spec.number != number)
    }

    /// Returns the jobs that had a key.
    pub(super) fn jobs_of_key(&self, queue: u16, key: u32) -> impl Iterator<Item = &JobHistory> {
        let versions = self.versions_of_key(queue, key);
        let mut ids: Vec<&String> = versions.filter_map(|it| it.id.as_ref()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().filter_map(|id| self.jobs.get(id))
    }

    /// Returns the job of a version with this id. Adds it if it was not observed before.
    pub(super) fn job_mut(&mut self, id: &str, queue: u16, version: u64) -> &mut JobHistory {
        let spec = self.versions.get(&version).map(|it| it.spec);
        let job = self.jobs.entry(id.to_owned());
        job.or_insert_with(|| JobHistory {
            id: id.to_owned(),
            queue,
            key: spec.and_then(|spec| spec.key),
            version,
            ..JobHistory::default()
        })
    }
}
