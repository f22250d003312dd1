//! Spans of jobs that are passed on.

use std::time::SystemTime;

use tidegate_daemon::traces::{FinishedSpan, SpanRole, Traces, wall_clock};

use super::state::RelayState;
use crate::job::{DeliveryOutcome, RelayJob};

/// The spans of the jobs of one call to the sink.
pub(super) struct RelaySpans<'a> {
    traces: &'a Traces,
    began_at: SystemTime,
}

impl<'a> RelaySpans<'a> {
    /// Begins a span for each job whose delivery is traced, and for others at random. The sink passes them on. `None`
    /// without a collector.
    pub(super) fn begin(traces: Option<&'a Traces>, jobs: &mut [RelayJob]) -> Option<Self> {
        let traces = traces?;
        for job in jobs {
            job.span = match job.delivery {
                Some(delivery) => Some(traces.child_of(delivery)),
                None => traces.sampled_root(),
            };
        }
        Some(Self {
            traces,
            began_at: wall_clock(),
        })
    }

    /// Ends the spans. There is an outcome for each job.
    pub(super) fn end(self, state: &RelayState, jobs: &[RelayJob], outcomes: &[DeliveryOutcome]) {
        for (job, outcome) in jobs.iter().zip(outcomes) {
            let Some(context) = job.span else {
                continue;
            };
            let error = match outcome {
                DeliveryOutcome::Confirmed => None,
                DeliveryOutcome::Rejected { error, .. } | DeliveryOutcome::Unavailable(error) => {
                    Some(error.clone())
                }
            };
            let name = state.name.as_str();
            let span = FinishedSpan::new(SpanRole::Send, context, "relay", name, self.began_at)
                .with_parent(job.delivery)
                .with("messaging.message.id", job.id.clone())
                .with("tidegate.sink", state.sink.clone())
                .with_error(error);
            self.traces.record(span);
        }
    }
}
