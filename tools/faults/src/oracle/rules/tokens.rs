//! Rules about tokens: no more requests than the rate limit, and none after the revocation.

use crate::history::{
    ClientRequest, History, Operation, RequestOutcome, Span, TokenLimit, UnixMicros,
};
use crate::oracle::excuses::Excuses;
use crate::oracle::verdict::{Defect, Verdict};

const TOO_MANY_REQUESTS: u16 = 429;
/// How long a revoked token may still work without an excuse, in µs.
const REVOKED_AFTER: u64 = 1_000_000;

pub(super) fn judge(history: &History, windows: &Excuses<'_>, verdict: &mut Verdict) {
    for limit in &history.limits {
        for kind in [LimitedVerb::Publish, LimitedVerb::Consume] {
            let units = match kind {
                LimitedVerb::Publish => limit.publishes,
                LimitedVerb::Consume => limit.consumes,
            };
            if units > 0 {
                let requests = TokenRequests::from_history(history, limit.token, kind);
                requests.never_over(units, limit, windows, verdict);
                requests.never_refused_below(units, limit, windows, verdict);
            }
        }
    }
    for revoke in &history.operations {
        if let (ClientRequest::Revoke { token }, RequestOutcome::Deleted) =
            (&revoke.request, &revoke.outcome)
        {
            never_after_revocation(history, *token, revoke, windows, verdict);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitedVerb {
    Publish,
    Consume,
}

impl LimitedVerb {
    const fn of(request: &ClientRequest) -> Option<Self> {
        match request {
            ClientRequest::Publish { .. } => Some(Self::Publish),
            ClientRequest::Reserve { .. } => Some(Self::Consume),
            _ => None,
        }
    }
}

/// Whether a request with a token succeeded.
fn has_succeeded(operation: &Operation) -> bool {
    match &operation.outcome {
        RequestOutcome::Published(_) => true,
        RequestOutcome::Delivered(jobs) => !jobs.is_empty(),
        _ => false,
    }
}

/// The requests of one kind with one token.
struct TokenRequests<'a>(Vec<&'a Operation>);

impl<'a> TokenRequests<'a> {
    fn from_history(history: &'a History, token: u16, kind: LimitedVerb) -> Self {
        let requests = history.operations.iter();
        let same =
            requests.filter(|it| it.token == token && LimitedVerb::of(&it.request) == Some(kind));
        Self(same.collect())
    }

    /// Any span of the length of a window overlaps at most two windows.
    fn never_over(
        &self,
        units: u64,
        limit: &TokenLimit,
        windows: &Excuses<'_>,
        verdict: &mut Verdict,
    ) {
        let mut worked: Vec<Span> = self
            .0
            .iter()
            .copied()
            .filter(|it| has_succeeded(it))
            .map(|it| it.span)
            .collect();
        worked.sort_by_key(|span| span.from);
        for (place, first) in worked.iter().enumerate() {
            let time = Span {
                from: first.from,
                to: first.from + limit.window,
            };
            let behind = worked[place..].iter().take_while(|it| it.from <= time.to);
            let within = behind.filter(|it| it.to <= time.to).count() as u64;
            // A Redis that lost its counters, or whose clock was moved, starts to count again.
            if within > 2 * units && !windows.may_lose(time) && windows.enforces_limits(time) {
                let token = limit.token;
                let text = format!("{within} requests with token {token} in a window of {units}");
                return verdict.add_finding(Defect::OverLimit, time.from, text);
            }
        }
    }

    /// A request may be rejected only if its window has as many other requests as the limit allows. A request without
    /// a clear answer may have been counted after its client gave up: a paused Redis executes received commands later.
    fn never_refused_below(
        &self,
        units: u64,
        limit: &TokenLimit,
        windows: &Excuses<'_>,
        verdict: &mut Verdict,
    ) {
        let was_refused =
            |it: &&&Operation| it.outcome == RequestOutcome::Refused(TOO_MANY_REQUESTS);
        for refused in self.0.iter().filter(was_refused) {
            let window = Span {
                from: refused.span.from.saturating_sub(limit.window),
                to: refused.span.to,
            };
            let may_count = |it: &&&Operation| {
                let taken = Span {
                    from: it.span.from,
                    to: windows.carried_out_by(it),
                };
                !it.outcome.is_refused() && taken.overlaps(&window)
            };
            let others = self.0.iter().filter(may_count).count() as u64;
            // A window lasts longer if the clock of Redis is set back.
            if others < units && windows.enforces_limits(window) {
                let token = limit.token;
                let text = format!(
                    "token {token} may make {units} requests, and was rejected after {others}"
                );
                verdict.add_finding(Defect::Refused, refused.span.to, text);
            }
        }
    }
}

fn never_after_revocation(
    history: &History,
    token: u16,
    revoke: &Operation,
    windows: &Excuses<'_>,
    verdict: &mut Verdict,
) {
    let end = windows.time_after(revoke.span.to, REVOKED_AFTER + windows.bound);
    let of_token = history.operations.iter().filter(|it| it.token == token);
    for operation in of_token.filter(|it| has_succeeded(it)) {
        // A publish may have been executed as soon as it was sent; a delivery says when its lease began.
        let worked: UnixMicros = match &operation.outcome {
            RequestOutcome::Delivered(jobs) if windows.has_reliable_clock(operation.span) => {
                let begun = jobs.iter().map(|job| job.reserved);
                begun.max().unwrap_or_default()
            }
            _ => operation.span.from,
        };
        let after = worked.saturating_sub(end);
        if after > 0 {
            let text = format!("token {token} worked {after} µs after the end of its revocation");
            verdict.add_finding(Defect::Revoked, worked, text);
        }
    }
}
