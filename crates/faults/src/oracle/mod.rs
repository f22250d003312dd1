//! The judge of a history: was anything lost, doubled, early, late?
//!
//! A pure function. Nothing that the service says about itself is believed: what counts is what clients were
//! answered. A request without a clear answer may have been carried out or not, at any moment from its
//! beginning on, and both is considered.

mod rules;
mod story;
#[cfg(test)]
mod tests;
mod verdict;
mod windows;

pub use verdict::{Counts, Defect, Finding, Lateness, Verdict};

use crate::history::History;
use story::Story;
use windows::Windows;

/// Holds every job of a history against what was promised for it.
#[must_use]
pub fn judge(history: &History) -> Verdict {
    let windows = Windows::of(history);
    let mut verdict = Verdict::default();
    let stories = story::tell(history, &windows, &mut verdict);
    for story in stories.values() {
        rules::apply(story, &windows, &mut verdict);
        count(story, &windows, &mut verdict.counts);
    }
    rules::refused_without_reason(history, &mut verdict);
    verdict.lateness.sort_by_key(|lateness| lateness.due);
    verdict
}

fn count(story: &Story<'_>, windows: &Windows<'_>, counts: &mut Counts) {
    counts.published += usize::from(story.is_published());
    counts.open += usize::from(story.published.outcome.is_open());
    counts.delivered += usize::from(!story.deliveries.is_empty());
    counts.deliveries += story.deliveries.len();
    counts.ended += usize::from(story.is_ended());
    counts.dead += usize::from(
        story
            .deliveries
            .iter()
            .any(|it| windows.is_after_respawn(it.got)),
    );
}
