//! The jobs that must be in Redis, by the lifecycle of each of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_core::lifecycle::{LifecycleEvent, LifecycleState, Transition};
use tidegate_core::{JobId, JobState};

/// The jobs of a list in order. Jobs that became ready in one call of move_due may come in any order among themselves:
/// several timers were late, and a stale hint may have put one at the front.
type Line = VecDeque<BTreeSet<JobId>>;

#[derive(Default)]
pub(super) struct Model {
    pub(super) jobs: BTreeMap<JobId, (usize, LifecycleState)>,
    pub(super) published: Vec<JobId>,
    pub(super) ready: [Line; 2],
    pub(super) dead: [Line; 2],
    pub(super) now_ms: u64,
}

impl Model {
    /// Applies an event to a job, if it exists.
    pub(super) fn apply(&mut self, id: JobId, event: LifecycleEvent) -> Option<Transition> {
        let (queue, life) = *self.jobs.get(&id)?;
        let after = life.apply(event, self.now_ms);
        match after {
            Transition::Lives(life) => drop(self.jobs.insert(id, (queue, life))),
            Transition::Gone => drop(self.jobs.remove(&id)),
            Transition::Refused => {}
        }
        Some(after)
    }

    pub(super) fn live(&self, id: JobId) -> Option<&LifecycleState> {
        let (_, life) = self.jobs.get(&id)?;
        (!life.expired(self.now_ms)).then_some(life)
    }

    /// The jobs of which any may be next in a list. Those that have left its state are dropped.
    pub(super) fn heads(&mut self, state: JobState, queue: usize) -> BTreeSet<JobId> {
        let mut line = std::mem::take(match state {
            JobState::Ready => &mut self.ready[queue],
            _ => &mut self.dead[queue],
        });
        while let Some(group) = line.front_mut() {
            group.retain(|id| self.live(*id).is_some_and(|life| life.state == state));
            if !group.is_empty() {
                break;
            }
            line.pop_front();
        }
        let heads = line.front().cloned().unwrap_or_default();
        match state {
            JobState::Ready => self.ready[queue] = line,
            _ => self.dead[queue] = line,
        }
        heads
    }

    /// Takes the next job of a list as Redis did; it must be one that may be next.
    pub(super) fn take(
        &mut self,
        state: JobState,
        queue: usize,
        id: Option<JobId>,
    ) -> Option<JobId> {
        let heads = self.heads(state, queue);
        assert_eq!(
            id.is_none(),
            heads.is_empty(),
            "{state:?}: got {id:?} of {heads:?}"
        );
        let id = id?;
        assert!(
            heads.contains(&id),
            "{state:?}: {id} is not the next of {heads:?}"
        );
        let line = if state == JobState::Ready {
            &mut self.ready[queue]
        } else {
            &mut self.dead[queue]
        };
        line[0].remove(&id);
        Some(id)
    }

    pub(super) fn move_due(&mut self) -> [usize; 2] {
        let (mut ready, mut buried) = (
            [BTreeSet::new(), BTreeSet::new()],
            [BTreeSet::new(), BTreeSet::new()],
        );
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            let (queue, before) = self.jobs[&id];
            match self.apply(id, LifecycleEvent::MoveDue) {
                Some(Transition::Lives(life)) if life.state != before.state => {
                    let groups = if life.state == JobState::Ready {
                        &mut ready
                    } else {
                        &mut buried
                    };
                    groups[queue].insert(id);
                }
                // An expired job may still be counted in Redis, and is never delivered.
                _ => {}
            }
        }
        let moved = [&ready, &buried].map(|groups| groups.iter().map(BTreeSet::len).sum());
        for (queue, group) in ready.into_iter().enumerate() {
            self.ready[queue].push_back(group);
        }
        for (queue, group) in buried.into_iter().enumerate() {
            self.dead[queue].push_back(group);
        }
        moved
    }

    pub(super) fn counts(&self, queue: usize) -> [u64; 5] {
        JobState::ALL.map(|state| {
            let lives = self
                .jobs
                .values()
                .filter(|(of, life)| *of == queue && life.state == state);
            lives.filter(|(_, life)| !life.expired(self.now_ms)).count() as u64
        })
    }
}
