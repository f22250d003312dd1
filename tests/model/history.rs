//! The requests of clients and their answers. It is the oracle, and so is kept apart from the modelled storage: it must
//! not depend on the records that the scripts write.

use crate::bucket::Number;
use crate::verbs::ModelPublish;

/// A guarantee that was violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Violation {
    /// Delivered before it was due.
    Early,
    /// Delivered after its time to live.
    Expired,
    /// Delivered after it was acknowledged or cancelled.
    AfterItsEnd,
    /// Delivered while another delivery's lease was running.
    SecondLease,
    /// Delivered more often than its tries allow.
    TooOften,
    /// Moved to the dead-letter queue while it had a try left or was leased.
    BuriedAlive,
    /// Acknowledged by attempt, by a delivery that no longer held it.
    EndedByLoser,
}

/// One published job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PastJob {
    due_at_ms: u64,
    expires_at_ms: u64,
    tries: u32,
    /// Deliveries that used a try.
    delivered: u32,
    /// All deliveries.
    attempt: u32,
    leased_until_ms: u64,
    /// A client has its id: the reply to the publish was not lost.
    pub(crate) is_known: bool,
    pub(crate) has_ended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct ModelHistory {
    pub(crate) jobs: Vec<PastJob>,
    pub(crate) broken: Option<Violation>,
}

impl ModelHistory {
    pub(crate) fn published(&mut self, publish: ModelPublish, now_ms: u64, is_answered: bool) {
        self.jobs.push(PastJob {
            due_at_ms: now_ms + publish.delay_ms,
            expires_at_ms: expires(now_ms, publish.ttl_ms),
            tries: publish.tries.into(),
            delivered: 0,
            attempt: 0,
            leased_until_ms: 0,
            is_known: is_answered,
            has_ended: false,
        });
    }

    pub(crate) fn delivered(&mut self, number: Number, ttr_ms: u64, now_ms: u64) {
        let job = &mut self.jobs[number];
        let broken = [
            (now_ms < job.due_at_ms, Violation::Early),
            (job.has_expired(now_ms), Violation::Expired),
            (job.has_ended, Violation::AfterItsEnd),
            (now_ms < job.leased_until_ms, Violation::SecondLease),
            (job.delivered >= job.tries, Violation::TooOften),
        ];
        job.delivered += 1;
        job.attempt += 1;
        job.leased_until_ms = now_ms + ttr_ms;
        let found = broken.into_iter().find(|(is_broken, _)| *is_broken);
        self.broken = self.broken.or(found.map(|(_, broken)| broken));
    }

    pub(crate) fn released(&mut self, number: Number) {
        let job = &mut self.jobs[number];
        job.delivered -= 1;
        job.leased_until_ms = 0;
    }

    pub(crate) fn ended(&mut self, number: Number, attempt: Option<u32>) {
        let job = &mut self.jobs[number];
        job.has_ended = true;
        if attempt.is_some_and(|attempt| attempt != job.attempt) {
            self.broken = self.broken.or(Some(Violation::EndedByLoser));
        }
    }

    pub(crate) fn died(&mut self, number: Number, now_ms: u64) {
        let job = &mut self.jobs[number];
        if job.delivered < job.tries || now_ms < job.leased_until_ms {
            self.broken = self.broken.or(Some(Violation::BuriedAlive));
        }
        job.expires_at_ms = 0;
    }

    pub(crate) fn respawned(&mut self, number: Number, ttl_ms: u64, now_ms: u64) {
        let job = &mut self.jobs[number];
        job.tries += 1;
        job.expires_at_ms = expires(now_ms, ttl_ms);
    }

    /// Whether the job must be stored: it has not been acknowledged or cancelled, and has not expired.
    pub(crate) fn must_be_there(&self, number: Number, now_ms: u64) -> bool {
        let job = &self.jobs[number];
        !job.has_ended && !job.has_expired(now_ms)
    }

    pub(crate) fn deliveries(&self) -> u32 {
        self.jobs.iter().map(|job| job.delivered).max().unwrap_or(0)
    }
}

impl PastJob {
    const fn has_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms != 0 && self.expires_at_ms <= now_ms
    }
}

const fn expires(now_ms: u64, ttl_ms: u64) -> u64 {
    if ttl_ms == 0 { 0 } else { now_ms + ttl_ms }
}
