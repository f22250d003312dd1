//! Model of the lines of a queue (`docs/decisions/0083-priorities.md`), checked in every state of a small system: jobs of
//! three priorities, which are leased alone and in pairs, given back, cancelled, and get another priority, in any order.
//!
//! Each script is modelled as one step. `tests/tests/store/priorities.rs` checks that the scripts do the same.

use stateright::{Checker, Model, Property};

use super::{THREADS, finds_violation};

const PRIORITIES: usize = 3;
/// Of this many jobs that are taken, the last one has a lower priority. It is smaller than in the scripts.
const ROUND: usize = 2;
/// Between two jobs of a line at most so many jobs of higher priorities are taken, as the lower ones take turns.
const PASSED_MAX: usize = ROUND * PRIORITIES;
const JOBS_MAX: usize = 3;
/// States with more hints are not visited: each job that is given back adds one.
const HINTS_MAX: usize = 4;

const FOUND: &str = "a reserve finds each ready job";
const FIRST: &str = "the highest priority is first, except for the last job of a round";
const SERVED: &str = "no job is passed by ever more others";

/// A defect in a script. The checker must find each of them, or its success proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PlantedLineDefect {
    /// A push into a line without hints sets no turn.
    PushSetsNoTurn,
    /// A push into a line without hints does not mark the queue.
    PushSetsNoMark,
    /// The turn of a line ends with any job that is taken.
    TakeEndsTurn,
    /// A queue is forgotten, with its mark, while a line has hints.
    ForgetIgnoresLines,
    /// No place of a round is for a lower priority.
    NoRound,
    /// The places for lower priorities are all for the highest of them.
    LowerTakeNoTurns,
    /// The highest priority that has jobs has no such place, even if the round has served a higher one.
    HighestIsNoLower,
    /// A hint counts in any line.
    HintOfAnyLine,
    /// A new priority does not move the job to another line.
    ChangeKeepsLine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ModelJobState {
    Ready,
    Leased,
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LinedJob {
    state: ModelJobState,
    priority: usize,
    /// While it is the first of its line: how many jobs of higher priorities were taken since the last one of its line,
    /// as far as it matters.
    passed: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct LineModelState {
    jobs: Vec<LinedJob>,
    /// The hints of each line.
    lines: [Vec<usize>; PRIORITIES],
    /// Whether a line has a turn.
    turns: [bool; PRIORITIES],
    is_marked: bool,
    /// How many jobs of the round were taken.
    taken: usize,
    /// The lower priority that had the last place of a round.
    last_lower: usize,
    /// The priority of the job that was taken before.
    before: usize,
    /// A job was delivered before one of a higher priority.
    is_out_of_order: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineModelAction {
    Publish { priority: usize },
    Reserve { count: usize },
    GiveBack { job: usize, at_head: bool },
    End { job: usize },
    Change { job: usize, priority: usize },
    Forget,
}

#[derive(Debug, Clone)]
struct Lines {
    planted: Option<PlantedLineDefect>,
}

impl LineModelState {
    fn is_ready_in(&self, job: usize, line: usize) -> bool {
        self.jobs[job].state == ModelJobState::Ready && self.jobs[job].priority == line
    }

    /// The lines with hints that a reserve sees, the highest priority first.
    fn lines_with_hints(&self) -> Vec<usize> {
        let seen = (0..PRIORITIES).rev().filter(|line| match line {
            0 => !self.lines[0].is_empty(),
            _ => self.is_marked && self.turns[*line],
        });
        seen.collect()
    }
}

impl Lines {
    fn has(&self, planted: PlantedLineDefect) -> bool {
        self.planted == Some(planted)
    }

    fn push(&self, world: &mut LineModelState, job: usize, at_head: bool) {
        let line = world.jobs[job].priority;
        if line > 0 && world.lines[line].is_empty() {
            world.turns[line] = !self.has(PlantedLineDefect::PushSetsNoTurn);
            world.is_marked |= !self.has(PlantedLineDefect::PushSetsNoMark);
        }
        match at_head {
            true => world.lines[line].insert(0, job),
            false => world.lines[line].push(job),
        }
    }

    fn make_ready(&self, world: &mut LineModelState, job: usize, at_head: bool) {
        world.jobs[job].state = ModelJobState::Ready;
        world.jobs[job].passed = 0;
        self.push(world, job, at_head);
    }

    /// The line of the next hint.
    fn next_line(&self, world: &mut LineModelState) -> Option<usize> {
        let seen = world.lines_with_hints();
        let highest = *seen.first()?;
        // The highest line may have had no place in this round.
        let before = match self.has(PlantedLineDefect::HighestIsNoLower) {
            true => highest,
            false => world.before,
        };
        let lower: Vec<usize> = seen.into_iter().filter(|line| *line < before).collect();
        let is_last = world.taken == ROUND - 1 && !self.has(PlantedLineDefect::NoRound);
        if !is_last || lower.is_empty() {
            return Some(highest);
        }
        let next = lower.iter().find(|line| **line < world.last_lower);
        let next = next.filter(|_| !self.has(PlantedLineDefect::LowerTakeNoTurns));
        world.last_lower = *next.unwrap_or(&lower[0]);
        Some(world.last_lower)
    }

    /// Takes hints until one leads to a job that may be leased.
    fn take(&self, world: &mut LineModelState) -> bool {
        while let Some(line) = self.next_line(world) {
            if world.lines[line].is_empty() {
                world.turns[line] = false;
                continue;
            }
            let job = world.lines[line].remove(0);
            if world.lines[line].is_empty() || self.has(PlantedLineDefect::TakeEndsTurn) {
                world.turns[line] = false;
            }
            let is_live = match self.has(PlantedLineDefect::HintOfAnyLine) {
                true => world.jobs[job].state == ModelJobState::Ready,
                false => world.is_ready_in(job, line),
            };
            if is_live {
                self.deliver(world, job);
                return true;
            }
        }
        false
    }

    fn deliver(&self, world: &mut LineModelState, job: usize) {
        let ready = world
            .jobs
            .iter()
            .filter(|it| it.state == ModelJobState::Ready);
        let highest = ready.map(|it| it.priority).max();
        let may_be_lower = world.taken == ROUND - 1;
        world.is_out_of_order |= !may_be_lower && highest != Some(world.jobs[job].priority);
        world.jobs[job].state = ModelJobState::Leased;
        world.jobs[job].passed = 0;
        let priority = world.jobs[job].priority;
        for (number, other) in world.jobs.iter_mut().enumerate() {
            let is_first = world.lines[other.priority].first() == Some(&number);
            if other.priority == priority {
                other.passed = 0;
            } else if other.state == ModelJobState::Ready && is_first && other.priority < priority {
                other.passed = (other.passed + 1).min(PASSED_MAX + 1);
            }
        }
        (world.taken, world.before) = ((world.taken + 1) % ROUND, priority);
    }

    fn change(&self, world: &mut LineModelState, job: usize, priority: usize) {
        world.jobs[job].priority = priority;
        if !self.has(PlantedLineDefect::ChangeKeepsLine) {
            world.jobs[job].passed = 0;
            self.push(world, job, false);
        }
    }

    /// Drops the stale hints at the heads, and forgets the queue if nothing is left.
    fn forget(&self, world: &mut LineModelState) {
        for line in 0..PRIORITIES {
            while world.lines[line]
                .first()
                .is_some_and(|job| !world.is_ready_in(*job, line))
            {
                world.lines[line].remove(0);
            }
            world.turns[line] &= !world.lines[line].is_empty();
        }
        let first = match self.has(PlantedLineDefect::ForgetIgnoresLines) {
            true => 1,
            false => PRIORITIES,
        };
        if world.lines[..first].iter().all(Vec::is_empty) {
            world.is_marked = false;
            (world.taken, world.last_lower, world.before) = (0, 0, 0);
        }
    }
}

impl Model for Lines {
    type State = LineModelState;
    type Action = LineModelAction;

    fn init_states(&self) -> Vec<LineModelState> {
        vec![LineModelState::default()]
    }

    fn actions(&self, world: &LineModelState, actions: &mut Vec<LineModelAction>) {
        if world.jobs.len() < JOBS_MAX {
            actions.extend((0..PRIORITIES).map(|priority| LineModelAction::Publish { priority }));
        }
        actions.extend([1, 2].map(|count| LineModelAction::Reserve { count }));
        actions.push(LineModelAction::Forget);
        for (job, it) in world.jobs.iter().enumerate() {
            match it.state {
                ModelJobState::Gone => continue,
                ModelJobState::Leased => actions.extend(
                    [true, false].map(|at_head| LineModelAction::GiveBack { job, at_head }),
                ),
                ModelJobState::Ready => {
                    let others = (0..PRIORITIES).filter(|priority| *priority != it.priority);
                    actions
                        .extend(others.map(|priority| LineModelAction::Change { job, priority }));
                }
            }
            actions.push(LineModelAction::End { job });
        }
    }

    fn next_state(
        &self,
        before: &LineModelState,
        action: LineModelAction,
    ) -> Option<LineModelState> {
        let mut world = before.clone();
        match action {
            LineModelAction::Publish { priority } => {
                world.jobs.push(LinedJob {
                    state: ModelJobState::Ready,
                    priority,
                    passed: 0,
                });
                self.push(&mut world, before.jobs.len(), false);
            }
            LineModelAction::Reserve { count } => {
                (0..count).take_while(|_| self.take(&mut world)).count();
            }
            LineModelAction::GiveBack { job, at_head } => {
                self.make_ready(&mut world, job, at_head);
            }
            LineModelAction::End { job } => {
                world.jobs[job] = LinedJob {
                    state: ModelJobState::Gone,
                    priority: 0,
                    passed: 0,
                };
            }
            LineModelAction::Change { job, priority } => self.change(&mut world, job, priority),
            LineModelAction::Forget => self.forget(&mut world),
        }
        (world != *before).then_some(world)
    }

    fn within_boundary(&self, world: &LineModelState) -> bool {
        world.lines.iter().map(Vec::len).sum::<usize>() <= HINTS_MAX
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(FOUND, |_, world: &LineModelState| {
                let seen = world.lines_with_hints();
                let mut jobs = world.jobs.iter().enumerate();
                jobs.all(|(number, job)| {
                    job.state != ModelJobState::Ready
                        || seen.contains(&job.priority)
                            && world.lines[job.priority].contains(&number)
                })
            }),
            Property::always(FIRST, |_, world: &LineModelState| !world.is_out_of_order),
            Property::always(SERVED, |_, world: &LineModelState| {
                world.jobs.iter().all(|job| job.passed <= PASSED_MAX)
            }),
            Property::sometimes(
                "a lower priority is served in its turn",
                |_, world: &LineModelState| {
                    let is = |state, priority| {
                        world
                            .jobs
                            .iter()
                            .any(|job| job.state == state && job.priority == priority)
                    };
                    is(ModelJobState::Ready, 2) && is(ModelJobState::Leased, 0)
                },
            ),
            Property::sometimes(
                "a hint is in a line that its job has left",
                |_, world: &LineModelState| {
                    (0..PRIORITIES).any(|line| {
                        world.lines[line]
                            .iter()
                            .any(|job| world.jobs[*job].priority != line)
                    })
                },
            ),
        ]
    }
}

#[test]
fn no_ready_job_is_stranded_in_its_line_or_starved() {
    let checker = Lines { planted: None };
    let checker = checker.checker().threads(THREADS).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn planted_defects_are_found() {
    for (planted, promise) in [
        (PlantedLineDefect::PushSetsNoTurn, FOUND),
        (PlantedLineDefect::PushSetsNoMark, FOUND),
        (PlantedLineDefect::TakeEndsTurn, FOUND),
        (PlantedLineDefect::ForgetIgnoresLines, FOUND),
        (PlantedLineDefect::ChangeKeepsLine, FOUND),
        (PlantedLineDefect::NoRound, SERVED),
        (PlantedLineDefect::LowerTakeNoTurns, SERVED),
        (PlantedLineDefect::HighestIsNoLower, SERVED),
        (PlantedLineDefect::HintOfAnyLine, FIRST),
    ] {
        let lines = Lines {
            planted: Some(planted),
        };
        finds_violation(planted, lines, promise);
    }
}
