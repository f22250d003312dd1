//! What a token may do: not more than its rate limit, and nothing after it was revoked.

use super::verdict::{Defect, Verdict};
use super::windows::Windows;
use crate::history::{Delivered, History, Moment, Operation, Outcome, RateLimit, Request, Span};

const TOO_MANY_REQUESTS: u16 = 429;
/// How long a revoked token may go on to work, in µs, where nothing excuses that it does.
const REVOKED_AFTER: u64 = 1_000_000;

pub(super) fn judge(history: &History, windows: &Windows<'_>, verdict: &mut Verdict) {
    for limit in &history.limits {
        for kind in [Kind::Publish, Kind::Consume] {
            let units = match kind {
                Kind::Publish => limit.publishes,
                Kind::Consume => limit.consumes,
            };
            if units > 0 {
                let requests = Requests::of(history, limit.token, kind);
                requests.never_over(units, limit, windows, verdict);
                requests.never_refused_below(units, limit, windows, verdict);
            }
        }
    }
    for revoke in &history.operations {
        if let (Request::Revoke { token }, Outcome::Deleted) = (&revoke.request, &revoke.outcome) {
            never_after_revocation(history, *token, revoke, windows, verdict);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Publish,
    Consume,
}

impl Kind {
    const fn of(request: &Request) -> Option<Self> {
        match request {
            Request::Publish { .. } | Request::Republish { .. } => Some(Self::Publish),
            Request::Consume { .. } => Some(Self::Consume),
            _ => None,
        }
    }
}

/// Whether a request was carried out for its token.
fn has_worked(operation: &Operation) -> bool {
    match &operation.outcome {
        Outcome::Published(_) => true,
        Outcome::Delivered(jobs) => !jobs.is_empty(),
        _ => false,
    }
}

/// The requests of one kind that one token was used for.
struct Requests<'a>(Vec<&'a Operation>);

impl<'a> Requests<'a> {
    fn of(history: &'a History, token: u16, kind: Kind) -> Self {
        let requests = history.operations.iter();
        let same = requests.filter(|it| it.token == token && Kind::of(&it.request) == Some(kind));
        Self(same.collect())
    }

    /// A time as long as a window meets two of them.
    fn never_over(
        &self,
        units: u64,
        limit: &RateLimit,
        windows: &Windows<'_>,
        verdict: &mut Verdict,
    ) {
        let mut worked: Vec<Span> = self
            .0
            .iter()
            .copied()
            .filter(|it| has_worked(it))
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
            // A Redis that lost what it counted begins again, and so does one whose clock is moved.
            if within > 2 * units && !windows.may_lose(time) && windows.keeps_limits(time) {
                let token = limit.token;
                let text = format!("{within} requests with token {token} in a window of {units}");
                return verdict.find(Defect::OverLimit, time.from, text);
            }
        }
    }

    /// A refusal needs as many other requests in its window as the limit is. A request without a clear answer may have
    /// taken its unit later than its client waited: a paused Redis executes what it was sent.
    fn never_refused_below(
        &self,
        units: u64,
        limit: &RateLimit,
        windows: &Windows<'_>,
        verdict: &mut Verdict,
    ) {
        let was_refused = |it: &&&Operation| it.outcome == Outcome::Refused(TOO_MANY_REQUESTS);
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
                !matches!(it.outcome, Outcome::NotSent | Outcome::Refused(_))
                    && taken.meets(&window)
            };
            let others = self.0.iter().filter(may_count).count() as u64;
            // A window lasts longer where the clock of Redis is set back.
            if others < units && windows.keeps_limits(window) {
                let token = limit.token;
                let text = format!("token {token} may do {units}, and was refused after {others}");
                verdict.find(Defect::Refused, refused.span.to, text);
            }
        }
    }
}

fn never_after_revocation(
    history: &History,
    token: u16,
    revoke: &Operation,
    windows: &Windows<'_>,
    verdict: &mut Verdict,
) {
    let end = windows.after(revoke.span.to, REVOKED_AFTER + windows.bound);
    let of_token = history.operations.iter().filter(|it| it.token == token);
    for operation in of_token.filter(|it| has_worked(it)) {
        // A publish may have been carried out as soon as it was sent; an answer says when a lease began.
        let worked: Moment = match &operation.outcome {
            Outcome::Delivered(jobs) if windows.keeps_time(operation.span) => {
                let begun = jobs.iter().map(Delivered::reserved);
                begun.max().unwrap_or_default()
            }
            _ => operation.span.from,
        };
        let after = worked.saturating_sub(end);
        if after > 0 {
            let text = format!("token {token} worked {after} µs after the end of its revocation");
            verdict.find(Defect::Revoked, worked, text);
        }
    }
}
