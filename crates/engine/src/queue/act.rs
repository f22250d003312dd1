//! Actions on all jobs of a queue that match a filter, one page after the other.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tidegate_core::v1::job::{ActBody, ActName};
use tidegate_core::{JobId, JobState, QueueKey};
use tidegate_store::{
    CancelOutcome, ChangeOutcome, InvalidPosition, LIST_HINTS_MAX, ListedJob, PromoteOutcome,
    Promoted, StoreError,
};

use super::act_progress::{change_since, is_for};
use super::job_filter::{matches, selection};
use super::job_list::{JobCursor, ListStep, read_number};
use crate::error::EngineError;
use crate::pool::Pool;

/// Calls to Redis that look for jobs, for one page.
const STEPS_PER_PAGE: usize = 40;
/// How far ahead of now a respawn at a rate schedules, in µs.
const AHEAD_US: u64 = 10_000_000;
/// Calls for single jobs that are in flight at a time.
const CALLS_AT_ONCE: usize = 16;

/// Where an action continues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ActCursor {
    list: JobCursor,
    /// When the action began in the lane, on the clock of its Redis, in ms since 1970; 0 = it has not.
    began_ms: u64,
    /// When the next job is due that a respawn brings back, in µs since 1970.
    due_us: u64,
}

impl fmt::Display for ActCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.began_ms, self.due_us, self.list)
    }
}

impl FromStr for ActCursor {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        // Six bytes of a record hold this much.
        const MS_MAX: u64 = (1 << 48) - 1;
        let mut parts = text.splitn(3, '.');
        Ok(Self {
            began_ms: read_number(parts.next(), MS_MAX)?,
            due_us: read_number(parts.next(), MS_MAX * 1000)?,
            list: parts.next().ok_or(InvalidPosition)?.parse()?,
        })
    }
}

/// The outcome of one page of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActPage {
    /// Jobs that matched the filter when the action began, and are not yet as it makes them.
    pub matched: u64,
    /// The jobs of them that were changed. Others had moved on, or a consumer holds them.
    pub changed: u64,
    /// Where the action continues; `None` when it is complete.
    pub next: Option<ActCursor>,
    /// How long to wait until then: a respawn at a rate is far enough ahead.
    pub wait: Duration,
}

impl ActPage {
    /// A page of an action that has done nothing yet.
    pub const fn beginning_at(cursor: ActCursor) -> Self {
        Self {
            matched: 0,
            changed: 0,
            next: Some(cursor),
            wait: Duration::ZERO,
        }
    }
}

impl Pool {
    /// Looks for jobs that match the filter of the action and acts on up to `limit` of them; with `dry_run` it only
    /// counts them. With the cursor of each page for the next one, it ends, reaches all jobs that matched at its begin
    /// and keep their state and due time until then, and changes none twice. Repeated with the same cursor it finds the
    /// jobs that are left.
    ///
    /// # Errors
    /// Redis gave no answer. Jobs of this page may have been changed.
    pub async fn act(
        &self,
        queue: &QueueKey,
        act: &ActBody,
        cursor: ActCursor,
    ) -> Result<ActPage, EngineError> {
        let mut page = ActPage::beginning_at(cursor);
        let limit = usize::from(act.limit.get());
        let mut selection = selection(&act.filter, act.act.states());
        selection.with_failures |= matches!(act.act, ActName::Promote | ActName::Change);
        for _ in 0..STEPS_PER_PAGE {
            let left = limit - usize::try_from(page.matched).unwrap_or(limit).min(limit);
            let Some(mut cursor) = page.next.take_if(|_| left > 0) else {
                break;
            };
            let hints = left.min(LIST_HINTS_MAX).min(room_for(act));
            let list = cursor.list.clone();
            let Some(mut step) = self.list_step(queue, &selection, list, hints).await? else {
                break;
            };
            let now_us = step.now_ms * 1000;
            cursor.due_us = cursor.due_us.min(now_us + 2 * AHEAD_US);
            if act.act == ActName::Respawn && !act.dry_run && cursor.due_us > now_us + AHEAD_US {
                page.wait = Duration::from_micros(cursor.due_us - now_us - AHEAD_US / 2);
                page.next = Some(cursor);
                break;
            }
            if step.begins_lane || cursor.began_ms == 0 {
                cursor.began_ms = step.now_ms;
            }
            // A hint that moved may be read twice in one step.
            let mut seen = BTreeSet::new();
            step.jobs.retain(|job| {
                matches(&act.filter, job)
                    && is_for(act, job, cursor.began_ms, step.now_ms)
                    && seen.insert(job.job.id)
            });
            page.matched += step.jobs.len() as u64;
            let mut next = step.next.take();
            if !act.dry_run && !step.jobs.is_empty() {
                cursor.due_us = cursor.due_us.max(now_us);
                page.changed += act_on(queue, act, &step, &mut cursor).await?;
                next = next.map(JobCursor::behind_changed_jobs);
            }
            page.next = next.map(|list| ActCursor { list, ..cursor });
        }
        Ok(page)
    }

    /// Does the same with one job, and returns whether it was changed.
    ///
    /// # Errors
    /// Redis gave no answer. The job may have been changed.
    pub async fn act_on_job(
        &self,
        queue: &QueueKey,
        job: JobId,
        act: &ActBody,
    ) -> Result<bool, EngineError> {
        for pool in self.with_target() {
            let Some(peeked) = pool.store.peek_job(queue, job).await? else {
                continue;
            };
            let step = ListStep {
                pool,
                jobs: vec![ListedJob {
                    body_bytes: peeked.job.body.len() as u64,
                    job: peeked.job,
                    is_damaged: false,
                    last_failure: None,
                    index: None,
                }],
                next: None,
                now_ms: 0,
                begins_lane: true,
            };
            if act_on(queue, act, &step, &mut ActCursor::default()).await? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// How many jobs one step may schedule without being more than [`AHEAD_US`] ahead afterwards, twice that at most.
fn room_for(act: &ActBody) -> usize {
    let space = act.space();
    if act.dry_run || space.is_zero() {
        return usize::MAX;
    }
    let jobs = u128::from(AHEAD_US) / space.as_micros().max(1);
    usize::try_from(jobs).unwrap_or(usize::MAX).max(1)
}

/// Acts on the jobs of a step that are in the state of the filter still, if it names one. Returns how many were
/// changed.
async fn act_on(
    queue: &QueueKey,
    act: &ActBody,
    step: &ListStep<'_>,
    cursor: &mut ActCursor,
) -> Result<u64, EngineError> {
    let (pool, store) = (step.pool, &step.pool.store);
    let state = match act.states() {
        [state] => Some(*state),
        _ => None,
    };
    let jobs: Vec<JobId> = step.jobs.iter().map(|listed| listed.job.id).collect();
    Ok(match act.act {
        ActName::Respawn => {
            let space = act.space();
            let respawned = store
                .respawn_jobs(queue, &step.jobs, cursor.due_us, space)
                .await?;
            pool.metrics.respawned(respawned);
            let spaces = u32::try_from(respawned).unwrap_or(u32::MAX);
            cursor.due_us += u64::try_from(space.saturating_mul(spaces).as_micros()).unwrap_or(0);
            respawned
        }
        ActName::Purge => {
            let mut purged = 0;
            for state in [JobState::Ready, JobState::Dead] {
                let in_state = step.jobs.iter().filter(|listed| listed.job.state == state);
                let jobs: Vec<JobId> = in_state.map(|listed| listed.job.id).collect();
                purged += store.purge_jobs(queue, state, &jobs).await?;
            }
            pool.metrics.deleted(purged);
            purged
        }
        ActName::Cancel => {
            let if_running = act.running.unwrap_or_default();
            count(jobs, async |job: JobId| {
                let outcome = store.cancel_in(queue, job, state, if_running).await?;
                pool.count_cancelled(outcome);
                Ok(matches!(
                    outcome,
                    CancelOutcome::Done { .. } | CancelOutcome::Requested(_)
                ))
            })
            .await?
        }
        ActName::Promote => {
            count(jobs, async |job: JobId| {
                let outcome = store.promote(queue, job).await?;
                Ok(matches!(
                    outcome,
                    PromoteOutcome::Done(Promoted {
                        was_delayed: true,
                        ..
                    })
                ))
            })
            .await?
        }
        ActName::Change => {
            let change = change_since(act, cursor.began_ms);
            count(jobs, async |job: JobId| {
                match store.change_in(queue, job, state, change).await {
                    Ok(outcome) => Ok(matches!(outcome, ChangeOutcome::Done(_))),
                    // It is changed, and damaged.
                    Err(StoreError::Corrupt(_)) => Ok(true),
                    Err(error) => Err(error),
                }
            })
            .await?
        }
    })
}

/// Calls a verb for each job, several at a time, and returns how many jobs it changed.
async fn count<F: Future<Output = Result<bool, StoreError>>>(
    jobs: Vec<JobId>,
    verb: impl Fn(JobId) -> F,
) -> Result<u64, EngineError> {
    let calls = stream::iter(jobs).map(verb).buffer_unordered(CALLS_AT_ONCE);
    let changed = calls.try_filter(|changed| std::future::ready(*changed));
    let changed: Vec<bool> = changed.try_collect().await?;
    Ok(changed.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_are_written() {
        assert_eq!(ActCursor::default().to_string(), "0.0.0.0");
        for text in ["0.0.0.0", "1764.1764000.1.7.dead:0:0:0:0:17:1000001:0:1:0"] {
            let cursor: ActCursor = text.parse().unwrap();
            assert_eq!(cursor.to_string(), text);
        }
        for text in [
            "",
            "0.0",
            "0.0.0",
            "x.0.0.0",
            "0.-1.0.0",
            "0.0.0.0.all:",
            "18446744073709551615.0.0.0",
            "0.18446744073709551615.0.0",
        ] {
            assert_eq!(text.parse::<ActCursor>(), Err(InvalidPosition), "{text}");
        }
    }
}
