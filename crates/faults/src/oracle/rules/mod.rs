//! What each job's story is held against.

mod clock;
mod ends;
mod late;
mod requests;
mod times;
mod tries;

use super::queues::Queues;
use super::story::Story;
use super::verdict::Verdict;
use super::windows::Windows;
pub(super) use ends::may_have_ended;
pub(super) use requests::{peeked, peeked_dead, refused_without_reason};

/// What all rules look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) windows: &'a Windows<'a>,
    pub(super) queues: &'a Queues<'a>,
}

/// Applies every rule to the story of one job. Answers how often it was respawned, as far as its deliveries tell.
pub(super) fn apply(story: &Story<'_>, context: Context<'_>, verdict: &mut Verdict) -> usize {
    if story.keeps_time {
        times::never_early(story, verdict);
        times::never_expired(story, context, verdict);
        tries::never_two_at_a_time(story, context, verdict);
    } else {
        clock::never_late(story, context, verdict);
    }
    ends::never_after_its_end(story, context, verdict);
    ends::never_lost(story, context, verdict);
    let mut respawned = 0;
    for (delivery, step) in tries::steps(story, context) {
        match step {
            Ok(step) => {
                if story.keeps_time {
                    late::never_late(story, delivery, &step, context, verdict);
                }
                respawned += usize::from(step.is_respawn());
            }
            Err(wrong) => wrong.find(story, delivery, verdict),
        }
    }
    respawned
}
