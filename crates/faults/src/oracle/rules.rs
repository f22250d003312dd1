//! What each job's story is held against.

use super::story::{Delivery, Story};
use super::verdict::{Defect, Lateness, Verdict};
use super::windows::{Windows, is_full_around};
use crate::fault::Class;
use crate::history::{History, NOT_CONFIRMED, Operation, Outcome, Request, Span};

/// Applies every rule to the story of one job.
pub(super) fn apply(story: &Story<'_>, windows: &Windows<'_>, verdict: &mut Verdict) {
    never_early(story, verdict);
    never_after_its_end(story, windows, verdict);
    never_lost(story, windows, verdict);
    let life = Span {
        from: story.published.span.from,
        to: story.deliveries.last().map_or(0, |last| last.span.to),
    };
    // What Redis lost changes what may follow: an attempt that it has forgotten comes again.
    if !windows.may_lose(life) {
        let (alive, dead): (Vec<_>, Vec<_>) = story
            .deliveries
            .iter()
            .partition(|delivery| !windows.is_after_respawn(delivery.got));
        never_doubled(story, &alive, verdict);
        never_late(story, &alive, windows, verdict);
        if let Some(buried) = dead.first() {
            never_dead_early(story, alive.len() as u64, buried, windows, verdict);
        }
    }
}

/// By Redis's clock alone, and by the consumer's, too.
fn never_early(story: &Story<'_>, verdict: &mut Verdict) {
    for Delivery { got, span, .. } in &story.deliveries {
        let due = got.created + story.terms.delay;
        let early = due.saturating_sub(got.reserved().min(span.to));
        if early > 0 {
            let name = story.name();
            verdict.find(
                Defect::Early,
                span.to,
                format!("{name} came {early} µs before it was due"),
            );
        }
    }
}

fn never_doubled(story: &Story<'_>, deliveries: &[&Delivery<'_>], verdict: &mut Verdict) {
    let mut double = |at: &Delivery<'_>, why: String| {
        verdict.find(
            Defect::Doubled,
            at.span.to,
            format!("{} {why}", story.name()),
        );
    };
    let mut left = story.terms.tries;
    for delivery in deliveries {
        let now = delivery.got.tries_left;
        if now >= left {
            double(
                delivery,
                format!("came with {now} tries left, had {left} before"),
            );
        }
        left = now;
    }
    for pair in deliveries.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let over = first.earliest + first.ttr;
        let overlap = over.saturating_sub(second.got.reserved());
        if overlap > 0 {
            double(
                second,
                format!("came {overlap} µs before its lease was over"),
            );
        }
    }
}

fn never_after_its_end(story: &Story<'_>, windows: &Windows<'_>, verdict: &mut Verdict) {
    let done = story
        .ends
        .iter()
        .filter(|end| end.outcome == Outcome::Deleted);
    let lasting = done.filter(|end| !windows.may_lose(end.span));
    let Some(end) = lasting.min_by_key(|end| end.span.to) else {
        return;
    };
    for delivery in &story.deliveries {
        let after = delivery.earliest.saturating_sub(end.span.to);
        if after > 0 {
            let how = told(end);
            let text = format!("{} came {after} µs after it was {how}", story.name());
            verdict.find(Defect::AfterItsEnd, delivery.span.to, text);
        }
    }
}

fn told(end: &Operation) -> &'static str {
    match end.request {
        Request::Cancel { .. } => "cancelled",
        _ => "acked",
    }
}

fn never_lost(story: &Story<'_>, windows: &Windows<'_>, verdict: &mut Verdict) {
    if !story.is_published() || story.is_ended() {
        return;
    }
    let terms = story.terms;
    // While a job has tries a taking that nobody knows of may have held it up.
    let (available, takes) = match story.deliveries.last() {
        None => (story.published.span.to + terms.delay, terms.tries),
        Some(last) => (last.lease_end(), last.got.tries_left),
    };
    let expires = story.created() + terms.ttl;
    if terms.ttl > 0 && expires <= windows.deadline(story.queue, available, takes) {
        return;
    }
    if windows.may_lose_jobs(story.published.span) {
        verdict.counts.lost_with_redis += 1;
        return;
    }
    let came = match story.deliveries.len() {
        0 => "never came".to_owned(),
        times => format!("came {times} times and not again"),
    };
    let text = format!("{} of {} tries {came}", story.name(), terms.tries);
    verdict.find(Defect::Lost, story.published.span.to, text);
}

fn never_late(
    story: &Story<'_>,
    deliveries: &[&Delivery<'_>],
    windows: &Windows<'_>,
    verdict: &mut Verdict,
) {
    let mut available = story.created() + story.terms.delay;
    let mut left = story.terms.tries;
    for delivery in deliveries {
        let came = delivery.span.to;
        let takes = left.saturating_sub(delivery.got.tries_left + 1);
        let deadline = windows.deadline(story.queue, available, takes);
        let late = came.saturating_sub(available);
        if came > deadline {
            let over_ms = (came - deadline) / 1000;
            let text = format!(
                "{} came {} ms after it was due, {over_ms} ms after its window",
                story.name(),
                late / 1000
            );
            verdict.find(Defect::Late, came, text);
        }
        if takes == 0 {
            verdict.lateness.push(Lateness {
                due: available,
                late,
            });
        }
        left = delivery.got.tries_left;
        available = delivery.lease_end();
    }
}

fn never_dead_early(
    story: &Story<'_>,
    received: u64,
    buried: &Delivery<'_>,
    windows: &Windows<'_>,
    verdict: &mut Verdict,
) {
    let unaccounted = story.terms.tries.saturating_sub(received);
    let due = story.created() + story.terms.delay;
    if unaccounted > windows.open_takes_after(story.queue, due) {
        let text = format!("{} died with {unaccounted} tries left", story.name());
        verdict.find(Defect::DiedEarly, buried.span.to, text);
    }
}

/// Where memory is full only publishes may fail, and where slots move nothing.
pub(super) fn refused_without_reason(history: &History, verdict: &mut Verdict) {
    let requests = history.operations.iter();
    let failed = requests.filter(|it| match it.outcome {
        Outcome::Failed(status) => status != NOT_CONFIRMED,
        _ => false,
    });
    for operation in failed {
        let span = operation.span;
        let is_publish = matches!(operation.request, Request::Publish { .. });
        let episodes = history.episodes.iter();
        let mut around = episodes.filter(|it| it.concerns(&span)).peekable();
        let slots_moved = around.peek().is_some();
        let slots_moved = slots_moved && around.all(|it| it.class == Class::Reshard);
        let mut episodes = history.episodes.iter();
        let was_full = episodes.any(|episode| is_full_around(episode, span));
        if slots_moved || (was_full && !is_publish) {
            let text = format!("{:?}: {:?}", operation.request, operation.outcome);
            verdict.find(Defect::Refused, span.to, text);
        }
    }
}
