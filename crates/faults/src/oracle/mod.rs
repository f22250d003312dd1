//! The judge of a history: was anything lost, doubled, early, late?
//!
//! A pure function. Nothing that the service says about itself is believed: what counts is what clients were
//! answered. A request without a clear answer may have been carried out or not, at any moment from its
//! beginning until calls that were sent must have ended, and both is considered.

mod asked;
mod order;
mod queues;
mod rules;
mod story;
mod takings;
#[cfg(test)]
mod tests;
mod tokens;
mod verdict;
mod windows;

pub use verdict::{Counts, Defect, Finding, Lateness, Verdict};

use crate::history::History;
use queues::Queues;
use rules::Context;
use story::Story;
use windows::Windows;

/// Holds every job of a history against what was promised for it.
#[must_use]
pub fn judge(history: &History) -> Verdict {
    let windows = Windows::of(history);
    let queues = Queues::of(history);
    let context = Context {
        windows: &windows,
        queues: &queues,
    };
    let mut verdict = Verdict::default();
    let stories = story::tell(history, &windows, &mut verdict);
    for story in stories.values() {
        let respawned = rules::apply(story, context, &mut verdict);
        count(story, respawned, context, &mut verdict.counts);
    }
    order::judge(&stories, &history.laned, context, &mut verdict);
    tokens::judge(history, &windows, &mut verdict);
    rules::peeked(history, &stories, context, &mut verdict);
    rules::peeked_dead(history, &stories, context, &mut verdict);
    rules::refused_without_reason(history, &mut verdict);
    verdict
        .lateness
        .sort_by_key(|lateness| lateness.waited.from);
    verdict
}

fn count(story: &Story<'_>, respawned: usize, context: Context<'_>, counts: &mut Counts) {
    counts.published += usize::from(story.is_published());
    counts.open += usize::from(story.published.outcome.is_open());
    counts.delivered += usize::from(!story.deliveries.is_empty());
    counts.deliveries += story.deliveries.len();
    counts.ended += usize::from(rules::may_have_ended(story, context));
    counts.dead += usize::from(respawned > 0);
}
