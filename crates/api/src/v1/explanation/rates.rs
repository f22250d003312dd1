//! The rates of the queue of a ready job.

use tidegate_core::v1::job::{FactCode, JobFact};
use tidegate_engine::QueueRate;
use tidegate_store::{RateOwner, TakenUnits};

use super::Situation;
use super::fact::{plain, timed};
use crate::duration_text::duration_text;

impl Situation {
    /// The rate without a unit now whose next unit comes last.
    pub(super) fn used_up_rate(&self) -> Option<&(QueueRate, TakenUnits)> {
        let full = self.rates.iter().filter(|(_, look)| look.is_used_up());
        full.max_by_key(|(_, look)| look.next_ms)
    }

    pub(super) fn rate_text(&self, QueueRate { owner, rate }: &QueueRate) -> String {
        let per = duration_text(rate.per_ms);
        let jobs = match rate.jobs {
            1 => "1 job".to_owned(),
            jobs => format!("{jobs} jobs"),
        };
        match owner {
            // No rate of deliveries belongs to a namespace.
            RateOwner::Queue(_) | RateOwner::Publishes(_) => {
                format!("Its queue delivers {jobs} per {per}.")
            }
            RateOwner::Limit(limit) => {
                let name = &limit.name;
                format!("Its queue shares the limit {name}: {jobs} per {per}.")
            }
        }
    }

    pub(super) fn next_unit(&self, look: &TakenUnits) -> String {
        format!("The next job is possible {}.", self.relative(look.next_ms))
    }

    pub(super) fn facts_of_rates(&self) -> impl Iterator<Item = JobFact> {
        self.rates.iter().map(|(rate, look)| {
            let code = match rate.owner {
                RateOwner::Queue(_) | RateOwner::Publishes(_) => FactCode::Rate,
                RateOwner::Limit(_) => FactCode::Limit,
            };
            let text = self.rate_text(rate);
            match look.is_used_up() {
                true => timed(
                    code,
                    format!("{text} {}", self.next_unit(look)),
                    look.next_ms,
                ),
                false => plain(code, &text),
            }
        })
    }
}
