//! Why a job is where it is, in one sentence and in facts.

use jiff::SignedDuration;
use tidegate_api_types::job::{DeadReason, FactCode, JobCause, JobExplanation, JobFact};
use tidegate_api_types::values::TimestampMs;
use tidegate_core::{Job, JobState, Pause, QueueKey, QueuePolicy};
use tidegate_engine::{EngineError, Pool};
use tidegate_store::{JobReference, JobSurroundings, LoggedFailure};

use super::content::{id_text, key_of, queue_text, state_name};
use super::job::reason_of;

/// How late a timer is before it counts as overdue, in ms.
const OVERDUE_MS: u64 = 1000;

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
    let situation = Situation {
        failures: pool.history(&found.job).await?,
        policy: pool.policy(queue),
        is_paused: pool.is_paused(queue),
        attempts_left: pool.attempts_left(queue, &found.job),
        found,
    };
    let job = &situation.found.job;
    let cause = situation.cause();
    Ok(Some(JobExplanation {
        id: id_text(job.id),
        queue: queue_text(queue),
        key: key_of(job),
        state: state_name(job.state),
        cause,
        summary: situation.summary(cause),
        facts: situation.facts(),
    }))
}

/// All that is known of a job.
struct Situation {
    found: JobSurroundings,
    failures: Vec<LoggedFailure>,
    policy: QueuePolicy,
    is_paused: bool,
    attempts_left: u16,
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
            JobState::Delayed if self.waits_for_a_retry() => JobCause::RetryNotDue,
            JobState::Delayed => JobCause::NotDue,
            JobState::Leased => JobCause::Held,
            JobState::Ready if self.is_paused => JobCause::Paused,
            JobState::Ready if !found.is_waited_for && found.leased == 0 => JobCause::NoWorker,
            JobState::Ready if found.ahead == Some(0) => JobCause::Next,
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

    /// Whether the last attempt of a delayed job has failed.
    fn waits_for_a_retry(&self) -> bool {
        let last = self.failures.last();
        last.is_some_and(|failure| failure.attempt == self.found.job.attempt)
    }

    fn summary(&self, cause: JobCause) -> String {
        let job = &self.found.job;
        let due = || self.relative(job.due_at_ms);
        match cause {
            JobCause::NotDue => format!("It is due {}.", due()),
            JobCause::RetryNotDue => format!(
                "Attempt {} has failed; the next one is due {}, and {} are left.",
                job.attempt,
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
            JobCause::Paused => match self.policy.pause {
                Pause::Until(end_ms) => format!("Its queue is paused; that ends {}.", self.relative(end_ms)),
                Pause::No | Pause::UntilResumed => "Its queue is paused: resume it in its policy.".to_owned(),
            },
            JobCause::NoWorker => format!(
                "It became ready {}, and no worker waits for its queue: start one, and check the name of the queue.",
                due()
            ),
            JobCause::BehindOthers => self.jobs_ahead(),
            JobCause::Next => "It is the next job of its queue: a worker gets it as soon as it asks.".to_owned(),
            JobCause::Held => format!(
                "A worker has attempt {} and holds it; its lease ends {}.",
                job.attempt,
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
                "Its stored payload is damaged, so it is not delivered: publish it again, and run an audit.".to_owned()
            }
            JobCause::Done => "It is done.".to_owned(),
        }
    }

    fn jobs_ahead(&self) -> String {
        match self.found.ahead {
            Some(0) => "No job is before it.".to_owned(),
            Some(1) => "1 job is before it.".to_owned(),
            Some(ahead) => format!("{ahead} jobs are before it."),
            None => "More than 100 jobs are before it.".to_owned(),
        }
    }

    /// A time as it is seen from now, such as "in 2m 5s".
    fn relative(&self, at_ms: u64) -> String {
        let now_ms = self.found.now_ms;
        let distance = i64::try_from(at_ms.abs_diff(now_ms)).unwrap_or(i64::MAX);
        // Milliseconds matter only below a second.
        let distance = match distance < 1000 {
            true => SignedDuration::from_millis(distance),
            false => SignedDuration::from_secs(distance / 1000),
        };
        match at_ms > now_ms {
            true => format!("in {distance:#}"),
            false => format!("{distance:#} ago"),
        }
    }

    fn facts(&self) -> Vec<JobFact> {
        let job = &self.found.job;
        let mut facts = self.times_of(job);
        facts.extend(self.facts_of_the_queue());
        let counts = job.failures.unwrap_or_default();
        if counts.failures > 0 {
            let text = format!(
                "{} attempts have failed; {} are left.",
                counts.failures, self.attempts_left
            );
            facts.push(counted(FactCode::Failures, text, counts.failures.into()));
        }
        if counts.losses > 0 {
            let text = format!("{} workers were lost while they held it.", counts.losses);
            facts.push(counted(FactCode::Losses, text, counts.losses.into()));
        }
        if let Some(last) = self.failures.last() {
            let text = format!(
                "The last error, of attempt {}: {}",
                last.attempt, last.error
            );
            facts.push(timed(FactCode::LastError, text, last.at_ms));
        }
        if job.cancel_requested {
            let text = "Its cancellation was requested: it is deleted when this attempt ends without success.";
            facts.push(plain(FactCode::CancelRequested, text));
        }
        facts
    }

    fn times_of(&self, job: &Job) -> Vec<JobFact> {
        let mut facts = Vec::new();
        let due = self.relative(job.due_at_ms);
        match job.state {
            JobState::Delayed => {
                facts.push(timed(
                    FactCode::Due,
                    format!("It is due {due}."),
                    job.due_at_ms,
                ));
            }
            JobState::Ready => {
                facts.push(timed(
                    FactCode::Due,
                    format!("It was due {due}."),
                    job.due_at_ms,
                ));
            }
            JobState::Leased => {
                let text = format!("Its lease ends {due}.");
                facts.push(timed(FactCode::LeaseEnds, text, job.due_at_ms));
            }
            JobState::Dead | JobState::Done => {}
        }
        if job.expires_at_ms > 0 {
            let expires = self.relative(job.expires_at_ms);
            let (code, text) = match job.state {
                JobState::Done => (FactCode::KeptUntil, format!("It is forgotten {expires}.")),
                _ => (
                    FactCode::Expires,
                    format!("It is dropped {expires} unless a worker has started it."),
                ),
            };
            facts.push(timed(code, text, job.expires_at_ms));
        }
        facts
    }

    fn facts_of_the_queue(&self) -> Vec<JobFact> {
        let found = &self.found;
        let mut facts = Vec::new();
        if found.job.state == JobState::Ready {
            facts.push(JobFact {
                count: found.ahead,
                ..plain(FactCode::Ahead, &self.jobs_ahead())
            });
            let text = format!("Workers hold {} jobs of its queue.", found.leased);
            facts.push(counted(FactCode::Running, text, found.leased));
        }
        if self.is_paused {
            facts.push(plain(FactCode::QueuePaused, "Its queue is paused."));
        }
        if self.policy.closed {
            facts.push(plain(
                FactCode::QueueClosed,
                "Its queue is closed: it takes no new jobs.",
            ));
        }
        if !found.has_pump {
            let text = "No pump runs for its bucket: delayed jobs do not become ready, leases do not expire.";
            facts.push(plain(FactCode::PumpMissing, text));
        }
        facts
    }
}

fn plain(code: FactCode, text: &str) -> JobFact {
    JobFact {
        code,
        text: text.to_owned(),
        at: None,
        count: None,
    }
}

fn timed(code: FactCode, text: String, at_ms: u64) -> JobFact {
    JobFact {
        at: Some(TimestampMs::saturating(at_ms)),
        ..plain(code, &text)
    }
}

fn counted(code: FactCode, text: String, count: u64) -> JobFact {
    JobFact {
        count: Some(count),
        ..plain(code, &text)
    }
}
