//! What must be in Redis, by the lifecycle of every single job.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_core::lifecycle::{After, Event, Life};
use tidegate_core::{JobId, State};

/// A line of jobs. Jobs that became ready in one call of move_due may come in any order among
/// themselves: several timers were late, and a stale hint may have brought one to the front.
type Line = VecDeque<BTreeSet<JobId>>;

#[derive(Default)]
pub(super) struct Model {
    pub(super) jobs: BTreeMap<JobId, (usize, Life)>,
    pub(super) published: Vec<JobId>,
    pub(super) ready: [Line; 2],
    pub(super) dead: [Line; 2],
    pub(super) now_ms: u64,
}

impl Model {
    /// Applies an event; the job's new life unless it is refused or gone.
    pub(super) fn apply(&mut self, id: JobId, event: Event) -> Option<After> {
        let (queue, life) = *self.jobs.get(&id)?;
        let after = life.after(event, self.now_ms);
        match after {
            After::Lives(life) => drop(self.jobs.insert(id, (queue, life))),
            After::Gone => drop(self.jobs.remove(&id)),
            After::Refused => {}
        }
        Some(after)
    }

    pub(super) fn live(&self, id: JobId) -> Option<&Life> {
        let (_, life) = self.jobs.get(&id)?;
        (!life.expired(self.now_ms)).then_some(life)
    }

    /// The jobs of which any may be the next of a line; those that left their state are dropped.
    pub(super) fn heads(&mut self, state: State, queue: usize) -> BTreeSet<JobId> {
        let mut line = std::mem::take(match state {
            State::Ready => &mut self.ready[queue],
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
            State::Ready => self.ready[queue] = line,
            _ => self.dead[queue] = line,
        }
        heads
    }

    /// Takes the next job of a line as Redis did; it must be one that may be the next.
    pub(super) fn take(&mut self, state: State, queue: usize, id: Option<JobId>) -> Option<JobId> {
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
        let line = if state == State::Ready {
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
            match self.apply(id, Event::MoveDue) {
                Some(After::Lives(life)) if life.state != before.state => {
                    let groups = if life.state == State::Ready {
                        &mut ready
                    } else {
                        &mut buried
                    };
                    groups[queue].insert(id);
                }
                // An expired job may still be counted in Redis; it is as good as gone.
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

    pub(super) fn counts(&self, queue: usize) -> [u64; 4] {
        State::ALL.map(|state| {
            let lives = self
                .jobs
                .values()
                .filter(|(of, life)| *of == queue && life.state == state);
            lives.filter(|(_, life)| !life.expired(self.now_ms)).count() as u64
        })
    }
}
