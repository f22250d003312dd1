//! Of the groups of a priority, none is served twice while another one waits for its turn.
//!
//! A reserve takes jobs of the lines of a priority from the head of their turns. A line of which a job was taken has
//! its next turn behind all others of its priority. So between two jobs of a line there is a job of each other line of
//! the priority that had jobs all the time, and a place if its group has a limit. That holds for any number of
//! consumers, in the order in which Redis leased the jobs: if a reserve takes two jobs of a line, it takes as many of
//! all others.

use std::collections::BTreeSet;

use super::context::RuleContext;
use super::held::{HeldQueueHistory, LineDelivery, WaitingJob};
use crate::history::Span;
use crate::oracle::verdict::{Defect, Verdict};

pub(super) fn judge(held: &HeldQueueHistory<'_>, context: RuleContext<'_>, verdict: &mut Verdict) {
    let mut found = BTreeSet::new();
    for waiting in &held.waiting {
        for pair in consecutive_of_each_rival(held, waiting) {
            let (first, second) = (pair[0], pair[1]);
            let between = between(first, second);
            let mut served = held.possibly_within(between);
            let is_missed = !served.any(|it| it.line == waiting.line)
                && held.shows_turns(waiting, between, context);
            if is_missed && found.insert((waiting.line, second.line, between.to)) {
                let text = format!(
                    "{} waited ({}), and {} was served twice",
                    waiting.version.name(),
                    waiting.line.name(),
                    first.line.name()
                );
                verdict.add_finding(Defect::TurnMissed, between.to, text);
            }
        }
    }
}

/// Returns the pairs of deliveries of a line that follow one another, of each other line of the priority, while a job
/// waited.
fn consecutive_of_each_rival<'a>(
    held: &'a HeldQueueHistory<'a>,
    waiting: &WaitingJob<'_>,
) -> Vec<[&'a LineDelivery<'a>; 2]> {
    let is_rival = |it: &&LineDelivery<'_>| {
        it.line.priority == waiting.line.priority && it.line != waiting.line
    };
    let mut rivals: Vec<_> = held.within(waiting.ready).filter(is_rival).collect();
    // It keeps the order of deliveries of a line.
    rivals.sort_by_key(|it| it.line);
    let pairs = rivals.windows(2);
    let of_one_line = pairs.filter(|pair| pair[0].line == pair[1].line);
    of_one_line.map(|pair| [pair[0], pair[1]]).collect()
}

fn between(first: &LineDelivery<'_>, second: &LineDelivery<'_>) -> Span {
    Span {
        from: first.begin().from,
        to: second.begin().to,
    }
}
