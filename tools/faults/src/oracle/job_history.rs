//! The history of each job, as clients observed it.

use std::collections::BTreeMap;

use super::cut::truncate_to_ms;
use super::excuses::Excuses;
use super::verdict::{Defect, Verdict};
use crate::history::{
    ClientRequest, History, JobInAnswer, JobParameters, Operation, RequestOutcome, Span, UnixMicros,
};

/// The history of one job.
#[derive(Debug)]
pub(super) struct JobHistory<'a> {
    pub(super) queue: u16,
    pub(super) terms: JobParameters,
    /// The request that published it.
    pub(super) published: &'a Operation,
    /// Its index among the jobs of that request.
    pub(super) index: usize,
    pub(super) id: Option<&'a str>,
    /// Its deliveries, in order.
    pub(super) deliveries: Vec<ObservedDelivery<'a>>,
    /// Acks, cancels and republishes of it.
    pub(super) ends: Vec<&'a Operation>,
    /// The earliest possible times of its peeks.
    pub(super) peeks: Vec<UnixMicros>,
    /// Whether times in answers about it are by the machine's clock. If Redis's clock was moved meanwhile, they are
    /// meaningless, and the job may be early or late.
    pub(super) has_reliable_times: bool,
}

/// One delivery that a consumer has received.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObservedDelivery<'a> {
    pub(super) got: &'a JobInAnswer,
    /// The span of its consume.
    pub(super) span: Span,
    pub(super) ttr: u64,
    /// The earliest time at which its lease can have begun.
    pub(super) lease_begin: UnixMicros,
}

impl ObservedDelivery<'_> {
    /// When its lease expires, within 2 ms.
    pub(super) const fn lease_end(&self) -> UnixMicros {
        self.got.reserved() + self.ttr
    }

    /// The span in which its lease can have begun and been acknowledged by Redis.
    pub(super) const fn lease_begin_span(&self) -> Span {
        Span {
            from: self.got.reserved(),
            to: self.span.to,
        }
    }
}

impl JobHistory<'_> {
    pub(super) fn is_published(&self) -> bool {
        matches!(self.published.outcome, RequestOutcome::Published(_))
    }

    /// The earliest time at which it can have been stored.
    pub(super) fn created(&self) -> UnixMicros {
        let first = self.deliveries.first();
        first.map_or(self.published.span.from, |delivery| delivery.got.created)
    }

    /// The last time at which it certainly existed; 0 if there is none. Observations while Redis could lose writes do
    /// not count: they may come from a demoted master that does not have an ack which the new master has.
    pub(super) fn last_observed(&self, windows: &Excuses<'_>) -> UnixMicros {
        let delivered = self.deliveries.iter().map(|it| it.lease_begin);
        let seen = delivered.chain(self.peeks.iter().copied());
        let seen = seen.filter(|at| !windows.may_lose(Span { from: *at, to: *at }));
        seen.max().unwrap_or_default()
    }

    /// Since when it is available after the last delivery, and how many tries it has then, if there were no unobserved
    /// reservations.
    pub(super) fn available(&self) -> (UnixMicros, u64) {
        match self.deliveries.last() {
            None => (self.published.span.to + self.terms.delay, self.terms.tries),
            Some(last) => (last.lease_end(), last.got.tries_left),
        }
    }

    pub(super) fn name(&self) -> String {
        format!("job {} of queue {}", self.terms.number, self.queue)
    }

    /// Sorts its deliveries by time, or by tries if the clock of Redis was moved during its life. `ended` is the end of
    /// the run.
    fn sort_deliveries(&mut self, windows: &Excuses<'_>, ended: UnixMicros) {
        let last = self.deliveries.iter().map(|it| it.span.to).max();
        let life = Span {
            from: self.published.span.from,
            to: last.unwrap_or(ended),
        };
        self.has_reliable_times = windows.has_reliable_clock(life);
        let has_reliable_times = self.has_reliable_times;
        self.deliveries.sort_by_key(|it| {
            let used = u64::MAX - it.got.tries_left;
            match has_reliable_times {
                true => (it.lease_begin, used),
                // An answer with several jobs may be read after the answer of a later lease.
                false => (used, it.span.to),
            }
        });
    }
}

/// Builds the histories of all jobs, by job number. Adds findings for answers that match no job.
pub(super) fn job_histories_of<'a>(
    history: &'a History,
    windows: &Excuses<'_>,
    verdict: &mut Verdict,
) -> BTreeMap<u64, JobHistory<'a>> {
    let mut job_histories = BTreeMap::new();
    let is_native = |queue: &u16| history.native.contains(queue);
    for operation in &history.operations {
        if !operation.request.queues().iter().any(is_native) {
            begin(&mut job_histories, operation);
        }
    }
    for operation in &history.operations {
        match (&operation.request, &operation.outcome) {
            (ClientRequest::Consume { queues, ttr, .. }, RequestOutcome::Delivered(jobs)) => {
                let is_judged_elsewhere =
                    |got: &&JobInAnswer| queues.contains(&got.queue) && is_native(&got.queue);
                for got in jobs.iter().filter(|got| !is_judged_elsewhere(got)) {
                    let delivery = ObservedDelivery {
                        got,
                        span: operation.span,
                        ttr: *ttr,
                        lease_begin: observed_at(operation, got, windows),
                    };
                    if let Some(job_history) =
                        find(&mut job_histories, operation, got, queues, windows, verdict)
                    {
                        job_history.deliveries.push(delivery);
                    }
                }
            }
            (ClientRequest::Peek { queue, .. }, RequestOutcome::Peeked(Some(got))) => {
                let queues = [*queue];
                if let Some(job_history) = find(
                    &mut job_histories,
                    operation,
                    got,
                    &queues,
                    windows,
                    verdict,
                ) {
                    job_history.peeks.push(observed_at(operation, got, windows));
                }
            }
            (
                ClientRequest::Ack { job }
                | ClientRequest::Cancel { job }
                | ClientRequest::Republish { replaced: job, .. },
                _,
            ) => {
                if let Some(job_history) = job_histories.get_mut(job) {
                    job_history.ends.push(operation);
                }
            }
            _ => {}
        }
    }
    for job_history in job_histories.values_mut() {
        job_history.sort_deliveries(windows, history.ended);
    }
    job_histories
}

fn begin<'a>(job_histories: &mut BTreeMap<u64, JobHistory<'a>>, operation: &'a Operation) {
    let (queue, jobs) = match &operation.request {
        ClientRequest::Publish { queue, jobs } => (queue, jobs.as_slice()),
        ClientRequest::Republish { queue, job, .. } => (queue, std::slice::from_ref(job)),
        _ => return,
    };
    for (place, terms) in jobs.iter().enumerate() {
        let id = match &operation.outcome {
            RequestOutcome::Published(ids) => ids.get(place).map(String::as_str),
            _ => None,
        };
        let job_history = JobHistory {
            queue: *queue,
            terms: *terms,
            published: operation,
            index: place,
            id,
            deliveries: Vec::new(),
            ends: Vec::new(),
            peeks: Vec::new(),
            has_reliable_times: true,
        };
        job_histories.insert(terms.number, job_history);
    }
}

/// Returns the history to which a job in an answer belongs. Adds findings for mismatches.
fn find<'a, 'b>(
    job_histories: &'b mut BTreeMap<u64, JobHistory<'a>>,
    operation: &Operation,
    got: &'a JobInAnswer,
    asked: &[u16],
    windows: &Excuses<'_>,
    verdict: &mut Verdict,
) -> Option<&'b mut JobHistory<'a>> {
    let mut foreign = |why: &str| {
        let text = format!("{}: {why}", got.id);
        verdict.add_finding(Defect::Foreign, operation.span.to, text);
    };
    let Some(job_history) = got.number.and_then(|number| job_histories.get_mut(&number)) else {
        foreign("it was not published, or not with this body and these attributes");
        return None;
    };
    if job_history.id.is_some_and(|id| id != got.id) {
        foreign("its job has another id");
    }
    if got.queue != job_history.queue || !asked.contains(&got.queue) {
        foreign("it came from another queue");
    }
    if windows.was_not_executed(job_history.published) {
        foreign("its publish was refused");
    }
    if !can_have_stored_at(job_history.published, got.created)
        && windows.has_reliable_clock(job_history.published.span)
    {
        foreign("its id says that it was stored when its publish cannot have been carried out");
    }
    let shown = got.reserved();
    let is_within = shown >= truncate_to_ms(operation.span.from) && shown <= operation.span.to;
    let life = Span {
        from: job_history.published.span.from,
        to: operation.span.to,
    };
    if !is_within && windows.has_reliable_clock(life) {
        foreign("its lease began, or it was peeked at, outside of the request that shows it");
    }
    // If no answer to the publish gave its id, the first observed one counts.
    job_history.id = job_history.id.or(Some(&got.id));
    Some(job_history)
}

/// Whether a publish can have stored a job at this time, which is truncated to ms.
fn can_have_stored_at(publish: &Operation, created: UnixMicros) -> bool {
    let is_closed = matches!(publish.outcome, RequestOutcome::Published(_));
    created >= truncate_to_ms(publish.span.from) && (!is_closed || created <= publish.span.to)
}

/// Returns the earliest time at which the job in an answer existed. The time in the answer is not used if Redis's clock
/// was moved, then or when the job was published.
fn observed_at(operation: &Operation, got: &JobInAnswer, windows: &Excuses<'_>) -> UnixMicros {
    match windows.has_reliable_clock(operation.span) && got.reserved() <= operation.span.to {
        true => got.reserved().max(truncate_to_ms(operation.span.from)),
        false => operation.span.from,
    }
}
