//! Figures of the native API.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::history::{
    ClientRequest, JobEndAnswer, NativeAnswer, NativeCall, Operation, RequestOutcome,
};

/// The verbs of the native API, in the order in which they are shown.
const VERBS: [&str; 9] = [
    "publish", "reserve", "ack", "fail", "touch", "release", "cancel", "change", "promote",
];

/// Figures of the native API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeCounts {
    /// Jobs that were observed on queues of native clients.
    pub jobs: usize,
    /// Versions that were published there.
    pub versions: usize,
    /// Deliveries from there.
    pub deliveries: usize,
    /// Requests that were carried out, by verb. A reserve call counts if it has returned jobs.
    requests: [usize; VERBS.len()],
    /// Jobs that were shown.
    shown: usize,
    /// Results that publishers got which waited for them.
    results: usize,
}

impl NativeCounts {
    /// Counts a request if it is one of the native API and was carried out.
    pub(crate) fn count_request(&mut self, operation: &Operation) {
        let (ClientRequest::Native(call), RequestOutcome::Native(answer)) =
            (&operation.request, &operation.outcome)
        else {
            return;
        };
        let did_nothing = match answer {
            NativeAnswer::Reserved(jobs) => jobs.is_empty(),
            NativeAnswer::NotFound | NativeAnswer::Conflict => true,
            _ => false,
        };
        let items = match call {
            NativeCall::Publish { versions, .. } => versions.len(),
            NativeCall::Settle { jobs, .. } => jobs.len(),
            _ => 1,
        };
        if did_nothing {
            return;
        }
        if matches!(
            answer,
            NativeAnswer::Ended {
                end: JobEndAnswer::Result(_),
                ..
            }
        ) {
            self.results += 1;
        }
        match VERBS.iter().position(|verb| *verb == call.verb()) {
            Some(place) => self.requests[place] += items,
            None => self.shown += 1,
        }
    }
}

impl fmt::Display for NativeCounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            jobs,
            versions,
            deliveries,
            shown,
            results,
            ..
        } = self;
        write!(
            out,
            "{jobs} jobs with {versions} versions, {deliveries} deliveries; {results} results, {shown} show"
        )?;
        for (verb, count) in VERBS.iter().zip(self.requests) {
            write!(out, ", {count} {verb}")?;
        }
        Ok(())
    }
}
