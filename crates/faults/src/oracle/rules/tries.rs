//! Each delivery costs a try, holds the job for a lease, and nothing else takes tries.

use super::super::story::{Delivery, Story};
use super::super::verdict::{Defect, Verdict};
use super::Context;
use crate::history::{Moment, Span};

/// How a delivery can have come after what was before it. One of the two is there, or both.
#[derive(Debug)]
pub(super) struct Step {
    /// The job was ready, or a lease was over.
    pub(super) ready: Option<Ready>,
    /// The job was dead, and became ready at this moment at the latest.
    pub(super) respawned: Option<Moment>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    /// Since when it could be had.
    pub(super) available: Moment,
    /// How many takings in between no delivery shows.
    pub(super) takes: u64,
}

impl Step {
    pub(super) const fn is_respawn(&self) -> bool {
        self.ready.is_none()
    }
}

/// Why there is no such way.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wrong {
    /// It had not so many tries any more.
    Used { had: u64 },
    /// It had more, and no consumer can have had them.
    Vanished { had: u64 },
}

impl Wrong {
    pub(super) fn find(self, story: &Story<'_>, delivery: &Delivery<'_>, verdict: &mut Verdict) {
        let (name, now) = (story.name(), delivery.got.tries_left);
        let (defect, text) = match self {
            Self::Used { had } => (
                Defect::Doubled,
                format!("{name} came with {now} tries left, had {had} before"),
            ),
            Self::Vanished { had } => (
                Defect::DiedEarly,
                format!(
                    "{name} came with {now} tries left, had {had} before, and nobody can have had the others"
                ),
            ),
        };
        verdict.find(defect, delivery.span.to, text);
    }
}

/// Each delivery, and how it came about.
pub(super) fn steps<'s, 'a>(
    story: &'s Story<'a>,
    context: Context<'s>,
) -> impl Iterator<Item = (&'s Delivery<'a>, Result<Step, Wrong>)> {
    // How many tries it may have had. Where Redis may have lost a delivery it may still have those from before.
    let mut had = vec![story.terms.tries];
    let mut available = story.created() + story.terms.delay;
    story.deliveries.iter().map(move |delivery| {
        let step = step(story, delivery, available, &had, context);
        if !context.windows.may_lose(delivery.taken()) {
            had.clear();
        }
        had.push(delivery.got.tries_left);
        available = delivery.lease_end();
        (delivery, step)
    })
}

fn step(
    story: &Story<'_>,
    delivery: &Delivery<'_>,
    available: Moment,
    had: &[u64],
    context: Context<'_>,
) -> Result<Step, Wrong> {
    let now = delivery.got.tries_left;
    let between = match story.keeps_time {
        true => Span {
            from: available,
            to: delivery.begun.max(available),
        },
        false => Span {
            from: story.published.span.from,
            to: delivery.span.to,
        },
    };
    let unseen = context.windows.unseen_takes(story.queue, between);
    let takes = had.iter().filter_map(|had| had.checked_sub(now + 1)).min();
    let ready = takes
        .filter(|takes| *takes <= unseen)
        .map(|takes| Ready { available, takes });
    let fewest = had.iter().min().copied().unwrap_or_default();
    let respawned = match now == 0 && fewest <= unseen {
        true => context
            .queues
            .respawned_in(story.queue, between, context.windows),
        false => None,
    };
    match (ready, respawned, takes) {
        (None, None, Some(takes)) => Err(Wrong::Vanished {
            had: now + 1 + takes,
        }),
        (None, None, None) => Err(Wrong::Used {
            had: had.iter().max().copied().unwrap_or_default(),
        }),
        _ => Ok(Step { ready, respawned }),
    }
}

pub(super) fn never_two_at_a_time(story: &Story<'_>, context: Context<'_>, verdict: &mut Verdict) {
    for pair in story.deliveries.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        let overlap = first.lease_end().saturating_sub(second.got.reserved());
        // A lease that Redis has forgotten holds nobody up.
        if overlap > 0 && !context.windows.may_lose(first.taken()) {
            let text = format!(
                "{} came {overlap} µs before its lease was over",
                story.name()
            );
            verdict.find(Defect::Doubled, second.span.to, text);
        }
    }
}
