//! What is known of a job.

use tidegate_core::v1::job::{FactCode, JobFact};
use tidegate_core::{Job, JobState};
use tidegate_engine::JobHolder;
use tidegate_store::JobsBefore;

use super::Situation;
use super::fact::{counted, plain, timed};

impl Situation {
    pub(super) fn facts(&self) -> Vec<JobFact> {
        let job = &self.found.job;
        let mut facts = self.times_of(job);
        facts.extend(self.facts_of_the_queue());
        if self.found.is_cold {
            let text = match &self.found.unavailable {
                None => "Its payload is in the cold tier.".to_owned(),
                Some(why) => {
                    format!("Its payload is in the cold tier, and cannot be read now: {why}.")
                }
            };
            facts.push(plain(FactCode::Payload, &text));
        }
        let counts = job.failures.unwrap_or_default();
        if counts.failures > 0 {
            let failed = match counts.failures {
                1 => "1 attempt has failed".to_owned(),
                failures => format!("{failures} attempts have failed"),
            };
            let text = match job.state {
                JobState::Dead => format!("{failed}."),
                _ => format!("{failed}; {} are left.", self.attempts_left),
            };
            facts.push(counted(FactCode::Failures, text, counts.failures.into()));
        }
        if counts.losses > 0 {
            let text = match counts.losses {
                1 => "1 worker was lost while it held it.".to_owned(),
                losses => format!("{losses} workers were lost while they held it."),
            };
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
        match job.state {
            JobState::Delayed | JobState::Ready => {
                facts.push(timed(FactCode::Due, self.due_text(), job.due_at_ms));
            }
            JobState::Leased => {
                let (verb, end) = (
                    self.ends_or_ended(job.due_at_ms),
                    self.relative(job.due_at_ms),
                );
                let text = format!("Its lease {verb} {end}.");
                facts.push(timed(FactCode::LeaseEnds, text, job.due_at_ms));
                facts.extend(self.holder.as_ref().and_then(|holder| self.held_by(holder)));
            }
            JobState::Dead | JobState::Done => {}
        }
        if job.expires_at_ms > 0 {
            let expires = self.relative(job.expires_at_ms);
            let (code, text) = match (job.state, job.failures) {
                (JobState::Done, _) => (FactCode::KeptUntil, format!("It is forgotten {expires}.")),
                (_, Some(_)) => (
                    FactCode::Expires,
                    format!("It is dropped {expires} unless a worker has started it."),
                ),
                // Of the lmstfy wire.
                (_, None) => (
                    FactCode::Expires,
                    format!("It is dropped {expires}, even if a worker holds it."),
                ),
            };
            facts.push(timed(code, text, job.expires_at_ms));
        }
        facts
    }

    /// `None` if another version of this program has stored an invalid name.
    fn held_by(&self, holder: &JobHolder) -> Option<JobFact> {
        let since = self.relative(holder.since_ms);
        let text = format!("Worker {} got it {since}.", holder.name);
        Some(JobFact {
            worker: Some(holder.name.parse().ok()?),
            ..timed(FactCode::HeldBy, text, holder.since_ms)
        })
    }

    fn facts_of_the_group(&self) -> Vec<JobFact> {
        let mut facts = Vec::new();
        if self.found.other_lines > 0 {
            let turns = counted(FactCode::Turns, self.turns(), self.found.other_lines);
            facts.push(turns);
        }
        if let Some(leased) = self.found.leased_of_group {
            let text = match self.policy.groups.max_running {
                Some(most) => {
                    format!(
                        "Workers hold {leased} of {most} jobs of its group that may run at a time."
                    )
                }
                None => format!("Workers hold {leased} jobs of its group."),
            };
            facts.push(counted(FactCode::GroupRunning, text, leased));
        }
        facts
    }

    fn facts_of_the_queue(&self) -> Vec<JobFact> {
        let found = &self.found;
        let mut facts = Vec::new();
        if found.job.state == JobState::Ready {
            let JobsBefore { least, most } = found.before;
            facts.push(JobFact {
                count: (least == most).then_some(most),
                ..plain(FactCode::Ahead, &self.jobs_ahead())
            });
            if found.higher_priority > 0 {
                let text = self.jobs_of_higher_priority();
                let ahead = counted(FactCode::HigherPriority, text, found.higher_priority);
                facts.push(ahead);
            }
            let running = match self.max_running {
                Some(most) => {
                    let (leased, place) = (found.leased, self.place().to_lowercase());
                    let text = format!(
                        "Workers hold {leased} of {most} jobs of {place} that may run at a time."
                    );
                    counted(FactCode::Running, text, leased)
                }
                None => {
                    let text = format!("Workers hold {} jobs of its queue.", self.leased);
                    counted(FactCode::Running, text, self.leased)
                }
            };
            facts.push(running);
            facts.extend(self.facts_of_the_group());
            facts.extend(self.facts_of_rates());
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
