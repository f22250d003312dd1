//! The history of each job, and the checks that each step was allowed. Independent of Redis.

use std::collections::BTreeMap;

use tidegate_core::lifecycle::expiry;
use tidegate_core::{JobId, NewJob};

#[derive(Debug)]
struct Past {
    due_at_ms: u64,
    expires_at_ms: u64,
    tries: u32,
    /// Deliveries that used a try.
    delivered: u32,
    /// All deliveries.
    attempt: u32,
    leased_until_ms: u64,
    is_dead: bool,
    has_ended: bool,
}

impl Past {
    const fn has_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms != 0 && self.expires_at_ms <= now_ms
    }
}

#[derive(Debug, Default)]
pub(super) struct Judge {
    jobs: BTreeMap<JobId, Past>,
    /// The latest time that the clock has shown. What had expired then may stay expired when the clock is set back.
    latest_ms: u64,
}

impl Judge {
    pub(super) fn clock(&mut self, now_ms: u64) {
        self.latest_ms = self.latest_ms.max(now_ms);
    }

    pub(super) fn ids(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    /// One of the jobs; any number is valid.
    pub(super) fn id(&self, index: usize) -> Option<JobId> {
        self.ids().get(index.checked_rem(self.jobs.len())?).copied()
    }

    pub(super) fn published(&mut self, id: JobId, job: &NewJob, now_ms: u64) {
        let past = Past {
            due_at_ms: now_ms + job.delay_ms,
            expires_at_ms: expiry(now_ms, job.ttl_ms),
            tries: job.tries.into(),
            delivered: 0,
            attempt: 0,
            leased_until_ms: 0,
            is_dead: false,
            has_ended: false,
        };
        assert!(self.jobs.insert(id, past).is_none(), "{id} twice");
    }

    fn job(&mut self, id: JobId) -> &mut Past {
        self.jobs.get_mut(&id).unwrap()
    }

    pub(super) fn delivered(&mut self, id: JobId, ttr_ms: u64, now_ms: u64) {
        let latest_ms = self.latest_ms;
        let job = self.job(id);
        assert!(latest_ms >= job.due_at_ms, "{id} is early: {job:?}");
        assert!(!job.has_expired(now_ms), "{id} had expired: {job:?}");
        assert!(!job.has_ended, "{id} had ended: {job:?}");
        assert!(
            latest_ms >= job.leased_until_ms,
            "{id} is leased already: {job:?}"
        );
        assert!(job.delivered < job.tries, "{id} has no tries: {job:?}");
        job.delivered += 1;
        job.attempt += 1;
        job.leased_until_ms = now_ms + ttr_ms;
    }

    pub(super) fn released(&mut self, id: JobId) {
        let job = self.job(id);
        job.delivered -= 1;
        job.leased_until_ms = 0;
    }

    pub(super) fn ended(&mut self, id: JobId, attempt: Option<u32>) {
        let job = self.job(id);
        assert!(!job.has_ended, "{id} ended twice");
        let is_current = attempt.is_none_or(|attempt| attempt == job.attempt);
        assert!(is_current, "{id} was ended by {attempt:?}: {job:?}");
        job.has_ended = true;
    }

    /// The job was looked up. A dead job that is no longer dead was respawned.
    pub(super) fn seen(&mut self, id: JobId, is_dead: bool, ttl_ms: u64, now_ms: u64) {
        let latest_ms = self.latest_ms;
        let job = self.job(id);
        if is_dead && !job.is_dead {
            assert!(
                job.delivered >= job.tries,
                "{id} died with tries left: {job:?}"
            );
            assert!(
                latest_ms >= job.leased_until_ms,
                "{id} died while leased: {job:?}"
            );
            job.expires_at_ms = 0;
        }
        if !is_dead && job.is_dead {
            job.tries += 1;
            job.expires_at_ms = expiry(now_ms, ttl_ms);
        }
        job.is_dead = is_dead;
    }

    pub(super) fn must_be_there(&self, id: JobId) -> bool {
        let job = &self.jobs[&id];
        !job.has_ended && !job.has_expired(self.latest_ms)
    }
}
