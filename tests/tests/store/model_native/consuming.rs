//! The verbs of consumers, and those on whole queues.

use std::iter::repeat;

use tidegate_core::v1::consume::Outcome;
use tidegate_core::{JobId, JobState, RetryDelays, RetryPolicy, RetrySteps};
use tidegate_store::{
    AckRequest, AfterFailure, Claim, FailRequest, LeaseLength, LeasedJob, NewResult, ReserveOptions,
};

use super::NativeRun;
use super::oracle::{FailEffect, NotHeld};
use super::steps::{NativeStep, ResultSpec};

/// The length of leases of jobs that have none.
const DEFAULT_LEASE_MS: u64 = 60_000;

fn policy() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 3,
        delays: RetryDelays {
            steps: RetrySteps::Listed(vec![1000, 5000]),
            jitter_permille: 0,
        },
    }
}

/// The shortest lease of a job whose payload is in the cold tier.
const COLD_LEASE_MS: u64 = 15_000;

impl NativeRun<'_> {
    /// The deliveries of a step, and the queue in which they are settled: that of the first one.
    fn chosen(&self, indexes: &[usize]) -> Option<(usize, Vec<LeasedJob>)> {
        let all = &self.deliveries;
        let chosen = indexes.iter().map(|index| {
            let index = index.checked_rem(all.len())?;
            all.get(all.len() - 1 - index)
        });
        let chosen: Vec<_> = chosen.collect::<Option<_>>()?;
        let (queue, _) = chosen.first()?;
        Some((*queue, chosen.iter().map(|(_, leased)| *leased).collect()))
    }

    pub(super) async fn consume(&mut self, step: &NativeStep) {
        match step {
            NativeStep::Reserve {
                queue,
                count,
                max_running,
                lease,
            } => self.reserve(*queue, *count, *max_running, *lease).await,
            NativeStep::Ack {
                deliveries,
                by_attempt,
                retain_ms,
                results,
            } => {
                self.ack(deliveries, *by_attempt, *retain_ms, results).await;
            }
            NativeStep::Fail { deliveries, then } => self.fail(deliveries, *then).await,
            NativeStep::Touch {
                deliveries,
                lease_ms,
            } => self.touch(deliveries, *lease_ms).await,
            NativeStep::Release {
                deliveries,
                delay_ms,
            } => self.release(deliveries, *delay_ms).await,
            NativeStep::PeekOldest { queue, dead } => self.peek_oldest(*queue, *dead).await,
            NativeStep::Respawn {
                queue,
                limit,
                ttl_ms,
            } => self.respawn(*queue, *limit, *ttl_ms).await,
            NativeStep::PurgeReady { queue } => self.purge_ready(*queue).await,
            NativeStep::PurgeDead { queue, limit } => self.purge_dead(*queue, *limit).await,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn reserve(
        &mut self,
        queue: usize,
        count: u16,
        max_running: Option<u64>,
        lease: LeaseLength,
    ) {
        let leased = self.numbers(queue, JobState::Leased).len();
        let places = max_running.map_or(usize::MAX, |most| (most as usize).saturating_sub(leased));
        let expected = self.ready(queue).into_iter();
        let expected: Vec<JobId> = expected.take(places.min(count.into())).collect();
        let claims = [Claim { count, lease }];
        let store = self.store();
        let options = ReserveOptions {
            registers: false,
            max_running,
            group_max_running: None,
        };
        let reserved = store.reserve_with(&self.queues[queue], &claims, options);
        let reserved = reserved.await.unwrap();
        let got = &reserved.jobs[0];
        let ids: Vec<JobId> = got.iter().map(|job| job.id).collect();
        assert_eq!(ids, expected, "not the oldest ready jobs");
        for job in got {
            let run_at_ms = self.model.jobs[&job.id].version.due_ms;
            let shortest_ms = match self.cold_jobs.contains(&job.id) {
                true => COLD_LEASE_MS,
                false => 0,
            };
            let lease_ms = lease.of(job).max(shortest_ms);
            let model = self.model.reserve(job.id, lease_ms);
            assert_eq!((job.run_at_ms, job.attempt), (run_at_ms, model.attempt));
            assert_eq!(
                (&job.body, job.due_at_ms),
                (&model.version.body, model.version.due_ms)
            );
            let leased = LeasedJob {
                id: job.id,
                attempt: job.attempt,
            };
            self.deliveries.push((queue, leased));
        }
        if let Some(most) = max_running {
            self.check_limit(queue, most);
        }
    }

    /// The limit of running jobs is stored if it is reached and hints of ready jobs are left. If others may take these,
    /// it may be stored with the time of their doorbell.
    fn check_limit(&mut self, queue: usize, most: u64) {
        let leased = self.numbers(queue, JobState::Leased).len() as u64;
        let script = "local number = redis.call('HGET', KEYS[1] .. 'queues', ARGV[1])
            if not number then return { 0, '' } end
            return { redis.call('EXISTS', KEYS[1] .. 'ready:' .. number),
                redis.call('HGET', KEYS[1] .. 'q:' .. number, 'at_limit') or '' }";
        let mut eval = redis::cmd("EVAL");
        let eval = eval.arg(script).arg(1).arg("tg:0:{8209}:");
        let eval = eval.arg(&self.names[queue]);
        let (has_hints, stored): (bool, String) = eval.query(&mut self.connection).unwrap();
        let is_at_limit = leased >= most && has_hints;
        let is_right = match is_at_limit {
            true => stored == most.to_string(),
            false => stored.is_empty() || has_hints && stored.starts_with(&format!("{most} ")),
        };
        assert!(
            is_right,
            "{stored:?}: {leased} of {most} leased, hints: {has_hints}"
        );
        self.count(if is_at_limit {
            "reserve: at its limit"
        } else {
            "reserve: below its limit"
        });
    }

    async fn ack(
        &mut self,
        deliveries: &[usize],
        by_attempt: bool,
        retain_ms: u64,
        results: &[Option<ResultSpec>],
    ) {
        let Some((queue, leased)) = self.chosen(deliveries) else {
            return;
        };
        let results = results.iter().map(|spec| self.new_result((*spec)?));
        let results = results.chain(repeat(None)).take(leased.len());
        let requests = leased
            .iter()
            .zip(results)
            .map(|(leased, result)| AckRequest {
                id: leased.id,
                attempt: by_attempt.then_some(leased.attempt),
                result,
            });
        let requests: Vec<_> = requests.collect();
        let has_results = requests.iter().any(|request| request.result.is_some());
        let verb = if has_results {
            "ack with results"
        } else {
            "ack"
        };
        let (store, key) = (self.store(), &self.queues[queue]);
        let acked = store.ack_all(key, &requests, retain_ms).await.unwrap();
        for (request, acked) in requests.iter().zip(acked) {
            self.note(verb, &acked.outcome);
            let expected = self.model.ack(queue, request, retain_ms);
            assert_eq!(acked, expected, "{request:?} of {requests:?}");
        }
    }

    fn new_result(&mut self, spec: ResultSpec) -> Option<NewResult> {
        self.versions += 1;
        let attribute = (":t".to_owned(), "text/plain".to_owned());
        Some(NewResult {
            attributes: spec
                .has_attributes
                .then_some(attribute)
                .into_iter()
                .collect(),
            body: spec.content.bytes(self.versions),
        })
    }

    async fn fail(&mut self, deliveries: &[usize], then: AfterFailure) {
        let Some((queue, leased)) = self.chosen(deliveries) else {
            return;
        };
        let error = format!("error of version {}", self.versions);
        let failed = leased.into_iter().map(|job| FailRequest {
            job,
            then,
            error: error.clone(),
        });
        let failed: Vec<FailRequest> = failed.collect();
        let (store, policy) = (self.store(), policy());
        let outcomes = store.fail_all(&self.queues[queue], &failed, &policy);
        for (outcome, failed) in outcomes.await.unwrap().into_iter().zip(&failed) {
            self.note("fail", &outcome);
            let now_ms = self.model.now_ms;
            match (outcome, self.model.fail(queue, failed, &policy)) {
                (Outcome::Gone, FailEffect::NotHeld(NotHeld::Gone))
                | (Outcome::Lost, FailEffect::NotHeld(NotHeld::Lost))
                | (Outcome::Rerun, FailEffect::Rerun)
                | (Outcome::Cancelled, FailEffect::Cancelled)
                | (Outcome::Dead, FailEffect::Dead) => {}
                (
                    Outcome::Retry { run_at },
                    FailEffect::Retry {
                        delay_ms,
                        jitter_permille,
                    },
                ) => {
                    let due_at_ms = run_at.as_ms();
                    let longer_ms = due_at_ms.checked_sub(now_ms + delay_ms);
                    let most_ms = (delay_ms * jitter_permille).div_ceil(1000);
                    assert!(longer_ms.is_some_and(|ms| ms <= most_ms), "{longer_ms:?}");
                    self.model.retry(failed.job.id, due_at_ms, &failed.error);
                }
                (outcome, _) => panic!("{outcome:?} of {failed:?}"),
            }
        }
    }

    async fn touch(&mut self, deliveries: &[usize], lease_ms: Option<u64>) {
        let Some((queue, leased)) = self.chosen(deliveries) else {
            return;
        };
        let store = self.store();
        let touched = store.touch_all(&self.queues[queue], &leased, lease_ms, DEFAULT_LEASE_MS);
        let touched = touched.await.unwrap();
        touched
            .iter()
            .for_each(|outcome| self.note("touch", outcome));
        let model = &mut self.model;
        let expected = leased
            .iter()
            .map(|leased| model.touch(queue, *leased, lease_ms, DEFAULT_LEASE_MS));
        assert_eq!(touched, expected.collect::<Vec<_>>());
    }

    async fn release(&mut self, deliveries: &[usize], delay_ms: u64) {
        let Some((queue, leased)) = self.chosen(deliveries) else {
            return;
        };
        let store = self.store();
        let released = store.release_all(&self.queues[queue], &leased, delay_ms);
        let released = released.await.unwrap();
        released
            .iter()
            .for_each(|outcome| self.note("release", outcome));
        let model = &mut self.model;
        let expected = leased
            .iter()
            .map(|leased| model.release(queue, *leased, delay_ms));
        assert_eq!(released, expected.collect::<Vec<_>>());
        let done = leased.iter().zip(&released);
        let done = done.filter(|(_, outcome)| **outcome == Outcome::Released && delay_ms == 0);
        self.released = done.map(|(leased, _)| leased.id.number()).collect();
    }

    async fn peek_oldest(&mut self, queue: usize, dead: bool) {
        let (store, key) = (self.store(), &self.queues[queue]);
        let (state, peeked) = if dead {
            (JobState::Dead, store.peek_dead(key).await.unwrap())
        } else {
            (JobState::Ready, store.peek_ready(key).await.unwrap())
        };
        let expected = match state {
            JobState::Ready => self.next_ready(queue),
            _ => self.dead(queue).first().copied(),
        };
        assert_eq!(peeked.map(|peeked| peeked.job.id), expected);
    }

    async fn respawn(&mut self, queue: usize, limit: u64, ttl_ms: u64) {
        let dead = self.dead(queue);
        let dead: Vec<JobId> = dead.into_iter().take(limit as usize).collect();
        let store = self.store();
        let respawned = store.respawn(&self.queues[queue], limit, ttl_ms).await;
        assert_eq!(respawned.unwrap(), dead.len() as u64);
        for id in dead {
            self.model.respawn(id, ttl_ms);
        }
    }

    async fn purge_ready(&mut self, queue: usize) {
        let ready = self.numbers(queue, JobState::Ready);
        let purged = self.store().purge_ready(&self.queues[queue]).await;
        assert_eq!(purged.unwrap(), ready.len() as u64);
        for (id, job) in self.model.jobs.clone() {
            if job.queue == queue && job.state == JobState::Ready {
                self.model.delete(id);
            }
        }
    }

    async fn purge_dead(&mut self, queue: usize, limit: u64) {
        let dead = self.dead(queue);
        let purged = self.store().purge_dead(&self.queues[queue], limit).await;
        assert_eq!(purged.unwrap(), limit.min(dead.len() as u64));
        for id in dead.into_iter().take(limit as usize) {
            self.model.delete(id);
        }
    }

    /// Consumes and acknowledges all jobs of a queue that are ready, and purges dead ones.
    pub(super) async fn consume_all(&mut self, queue: usize) {
        let begin = self.deliveries.len();
        self.reserve(queue, 1000, None, LeaseLength::Ms(1000)).await;
        let taken = self.deliveries.len() - begin;
        if taken > 0 {
            let all: Vec<usize> = (0..taken).collect();
            self.ack(&all, true, 0, &[]).await;
        }
        self.purge_dead(queue, 1000).await;
        let before: Vec<_> = (0..self.queues.len())
            .map(|queue| self.lines(queue))
            .collect();
        self.check(&before);
    }
}
