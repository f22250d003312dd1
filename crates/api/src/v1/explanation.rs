//! Why a job is where it is, in one sentence and in facts.

mod fact;
mod facts;
mod rates;

use tidegate_core::v1::job::{DeadReason, JobCause, JobExplanation};
use tidegate_core::v1::values::Timestamp;
use tidegate_core::{JobState, Policy, QueueKey};
use tidegate_engine::{EngineError, JobHolder, Pool, QueueRate};
use tidegate_store::{
    JobReference, JobSurroundings, JobsBefore, LeasedJob, LoggedFailure, RateOwner, TakenUnits,
};

use super::job_details::reason_of;
use crate::duration_text::duration_text;

/// How late a timer is before it counts as overdue, in ms.
pub(crate) const OVERDUE_MS: u64 = 1000;

/// How long a job waits at most whose payload cannot be read, in ms: docs/cold-tier.md
const POSTPONED_MS_MAX: u64 = 60_000;

/// Why a job is where it is; `None` if there is no such job.
///
/// # Errors
/// Redis gave no answer.
pub(crate) async fn explain(
    pool: &Pool,
    queue: &QueueKey,
    job: JobReference,
) -> Result<Option<JobExplanation>, EngineError> {
    let Some(found) = pool.explain(queue, job).await? else {
        return Ok(None);
    };
    let holder = match found.job.state {
        JobState::Leased => {
            let lease = LeasedJob {
                id: found.job.id,
                attempt: found.job.attempt,
            };
            pool.holder(&queue.namespace, lease).await?
        }
        _ => None,
    };
    let lanes = pool.lanes.used(queue);
    let leased = match found.job.state {
        JobState::Ready if lanes > 1 => pool.stats(queue).await?.leased,
        _ => found.leased,
    };
    let rates = match found.job.state {
        JobState::Ready => pool.look_at_rates(queue).await?,
        _ => Vec::new(),
    };
    let situation = Situation {
        rates,
        holder,
        lanes,
        leased,
        failures: pool.history(&found.job).await?,
        policy: pool.policy(queue),
        is_paused: pool.is_paused(queue),
        max_running: pool.max_running_in_lane_of(queue, found.job.id),
        attempts_left: pool.attempts_left(queue, &found.job),
        found,
    };
    let job = &situation.found.job;
    let cause = situation.cause();
    Ok(Some(JobExplanation {
        id: job.id,
        queue: queue.queue.clone(),
        key: job.key(),
        state: job.state,
        cause,
        summary: situation.summary(cause),
        facts: situation.facts(),
    }))
}

/// All that is known of a job.
struct Situation {
    found: JobSurroundings,
    /// Of its queue.
    lanes: u16,
    /// Jobs of its queue that workers hold. `found.leased` are the leased jobs of its lane.
    leased: u64,
    failures: Vec<LoggedFailure>,
    policy: Policy,
    is_paused: bool,
    /// In its lane.
    max_running: Option<u64>,
    attempts_left: u16,
    holder: Option<JobHolder>,
    /// The rates of the queue of a ready job, and the units that were taken from each.
    rates: Vec<(QueueRate, TakenUnits)>,
}

impl Situation {
    fn cause(&self) -> JobCause {
        let found = &self.found;
        if found.is_damaged {
            return JobCause::Unreadable;
        }
        let is_overdue = found.job.due_at_ms + OVERDUE_MS < found.now_ms;
        match found.job.state {
            JobState::Delayed | JobState::Leased if is_overdue && !found.has_pump => {
                JobCause::NoPump
            }
            JobState::Delayed | JobState::Leased if is_overdue => JobCause::Overdue,
            JobState::Delayed | JobState::Ready if self.payload_is_missed() => {
                JobCause::PayloadUnavailable
            }
            JobState::Delayed if self.waits_for_a_retry() => JobCause::RetryNotDue,
            JobState::Delayed => JobCause::NotDue,
            JobState::Leased => JobCause::Held,
            JobState::Ready if self.is_paused => JobCause::Paused,
            JobState::Ready if self.max_running.is_some_and(|most| found.leased >= most) => {
                JobCause::RunningLimit
            }
            JobState::Ready if self.is_group_full() => JobCause::GroupFull,
            JobState::Ready if self.used_up_rate().is_some() => match self.used_up_rate() {
                Some((rate, _)) if matches!(rate.owner, RateOwner::Limit(_)) => JobCause::LimitFull,
                _ => JobCause::RateLimited,
            },
            JobState::Ready if !found.is_waited_for && self.leased == 0 => JobCause::NoWorker,
            JobState::Ready if found.higher_priority > 0 => JobCause::PriorityBehind,
            JobState::Ready if found.before.most == 0 && found.other_lines == 0 => JobCause::Next,
            JobState::Ready => JobCause::BehindOthers,
            JobState::Dead => match reason_of(&found.job, &self.failures) {
                DeadReason::Failures => JobCause::DeadByFailures,
                DeadReason::Losses => JobCause::DeadByLosses,
                DeadReason::Permanent => JobCause::DeadForGood,
                DeadReason::Unreadable => JobCause::Unreadable,
            },
            JobState::Done => JobCause::Done,
        }
    }

    /// Whether the payload cannot be read now, and the job is due or was postponed for that.
    fn payload_is_missed(&self) -> bool {
        let found = &self.found;
        let is_soon = found.job.due_at_ms <= found.now_ms + POSTPONED_MS_MAX;
        found.unavailable.is_some() && is_soon
    }

    /// Whether the last attempt of a delayed job has failed. A version that has replaced a failed version counts no
    /// failures.
    fn waits_for_a_retry(&self) -> bool {
        let counts = self.found.job.failures.unwrap_or_default();
        let last = self.failures.last().filter(|_| counts.failures > 0);
        last.is_some_and(|failure| failure.attempt == self.found.job.attempt)
    }

    fn group_text(&self) -> String {
        format!(
            "Its group has {} of {} jobs running: it is delivered after one of them ends, or when groups.max_running in the policy of its queue is raised.",
            self.found.leased_of_group.unwrap_or_default(),
            self.policy.groups.max_running.unwrap_or_default()
        )
    }

    fn payload_text(&self) -> String {
        format!(
            "Its payload is in the cold tier and cannot be read now: {}. It is tried again {}; restore the object store, or the object.",
            self.found.unavailable.as_deref().unwrap_or_default(),
            match self.found.job.state {
                JobState::Ready => "when a worker asks".to_owned(),
                _ => self.relative(self.found.job.due_at_ms),
            }
        )
    }

    fn summary(&self, cause: JobCause) -> String {
        let job = &self.found.job;
        let due = || self.relative(job.due_at_ms);
        match cause {
            JobCause::NotDue => self.due_text(),
            JobCause::RetryNotDue => format!(
                "Attempt {} has failed; the next one {} due {}, and {} are left.",
                job.attempt,
                self.is_or_was(job.due_at_ms),
                due(),
                self.attempts_left
            ),
            JobCause::Overdue => format!(
                "It was due {}, and its pump has not moved it yet: look at the lateness and the load of pumps and Redis.",
                due()
            ),
            JobCause::NoPump => format!(
                "It was due {}, but no pump runs: start tidegate-pumpd, or look into its log.",
                due()
            ),
            JobCause::Paused => match self.policy.paused_until.map(Timestamp::as_ms) {
                Some(end_ms) => format!("Its queue is paused; that {} {}.", self.ends_or_ended(end_ms), self.relative(end_ms)),
                None => "Its queue is paused: resume it in its policy.".to_owned(),
            },
            JobCause::RunningLimit => format!(
                "{} has {} of {} jobs running: it is delivered after one of them ends, or when max_running in its policy is raised.",
                self.place(),
                self.found.leased,
                self.max_running.unwrap_or_default()
            ),
            JobCause::RateLimited | JobCause::LimitFull => self.used_up_rate().map_or_else(String::new, |(rate, look)| {
                format!("{} {}", self.rate_text(rate), self.next_unit(look))
            }),
            JobCause::NoWorker => format!(
                "It became ready {}, and no worker waits for its queue: start one, and check the name of the queue.",
                due()
            ),
            JobCause::PriorityBehind => self.jobs_of_higher_priority(),
            JobCause::GroupFull => self.group_text(),
            JobCause::PayloadUnavailable => self.payload_text(),
            JobCause::BehindOthers if self.found.other_lines > 0 => format!("{} {}", self.jobs_ahead(), self.turns()),
            JobCause::BehindOthers => self.jobs_ahead(),
            JobCause::Next => format!("It is the next job of {}: a worker gets it as soon as it asks.", self.place().to_lowercase()),
            JobCause::Held => format!(
                "{} has attempt {} and holds it; its lease {} {}.",
                self.holder.as_ref().map_or("A worker".to_owned(), |it| format!("Worker {}", it.name)),
                job.attempt,
                self.ends_or_ended(job.due_at_ms),
                due()
            ),
            JobCause::DeadByFailures => format!(
                "It died {} after its last attempt had failed: respawn it when the cause is repaired.",
                due()
            ),
            JobCause::DeadByLosses => format!(
                "It died {}: workers were lost while they held it, so it may be the job that ends them.",
                due()
            ),
            JobCause::DeadForGood => format!(
                "It died {}: its worker said that no attempt can succeed.",
                due()
            ),
            JobCause::Unreadable => {
                "Its stored record or payload is damaged, so it is not delivered: publish it again, and run an audit.".to_owned()
            }
            JobCause::Done => "It is done.".to_owned(),
        }
    }

    /// The unit that has its own order and its own share of `max_running`.
    const fn place(&self) -> &'static str {
        match self.lanes {
            0 | 1 => "Its queue",
            _ => "Its lane of the queue",
        }
    }

    fn jobs_ahead(&self) -> String {
        let JobsBefore { least, most } = self.found.before;
        match (least, most) {
            (_, 0) => "No job is before it.".to_owned(),
            (0, 1) => "Up to 1 job is before it.".to_owned(),
            (0, most) => format!("Up to {most} jobs are before it."),
            (1, 1) => "1 job is before it.".to_owned(),
            (least, most) if least == most => format!("{least} jobs are before it."),
            (1, _) => "At least 1 job is before it.".to_owned(),
            (least, _) => format!("At least {least} jobs are before it."),
        }
    }

    /// Whether workers hold as many jobs of its group as they may.
    fn is_group_full(&self) -> bool {
        let leased = self.found.leased_of_group;
        let most = self.policy.groups.max_running;
        leased
            .zip(most)
            .is_some_and(|(leased, most)| leased >= most)
    }

    fn turns(&self) -> String {
        match self.found.other_lines {
            1 => "1 other group takes turns with its group.".to_owned(),
            groups => format!("{groups} other groups take turns with its group."),
        }
    }

    fn jobs_of_higher_priority(&self) -> String {
        match self.found.higher_priority {
            1 => "1 job of a higher priority is ahead.".to_owned(),
            jobs => format!("{jobs} jobs of a higher priority are ahead."),
        }
    }

    fn due_text(&self) -> String {
        let due_at_ms = self.found.job.due_at_ms;
        let (verb, due) = (self.is_or_was(due_at_ms), self.relative(due_at_ms));
        format!("It {verb} due {due}.")
    }

    const fn is_or_was(&self, at_ms: u64) -> &'static str {
        if at_ms > self.found.now_ms {
            "is"
        } else {
            "was"
        }
    }

    const fn ends_or_ended(&self, at_ms: u64) -> &'static str {
        if at_ms > self.found.now_ms {
            "ends"
        } else {
            "ended"
        }
    }

    /// A time as it is seen from now, such as "in 2m 5s".
    fn relative(&self, at_ms: u64) -> String {
        let now_ms = self.found.now_ms;
        let distance = duration_text(at_ms.abs_diff(now_ms));
        match at_ms > now_ms {
            true => format!("in {distance}"),
            false => format!("{distance} ago"),
        }
    }
}
