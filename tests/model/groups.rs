//! Model of groups (`docs/decisions/0084-groups.md`), checked in every state of a small system: jobs of three groups, which
//! are leased alone and in pairs under a limit that changes, given back and ended in any order, and a process that waits.
//!
//! Each script is modelled as one step. `tests/tests/store/groups_random.rs` checks that the scripts do the same.

use stateright::{Checker, Model, Property};

use super::{THREADS, finds_violation};

const GROUPS: usize = 3;
const JOBS_MAX: usize = 4;
/// States with more hints are not visited: each job that is given back adds one.
const HINTS_MAX: usize = 4;
const LIMITS: [Option<usize>; 3] = [Some(1), Some(2), None];

const LIMITED: &str = "no more jobs of a group are leased than its limit allows";
const FOUND: &str = "a reserve finds each ready job whose group has a place";
const RUNG: &str = "a process waits only while no job may be leased";
const FAIR: &str = "no group waits while another one is served twice";

/// A defect in a script. The checker must find each of them, or its success proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PlantedGroupDefect {
    /// A lease of a job is not counted for its group.
    LeaseNotCounted,
    /// Places are compared once for a whole call.
    OwnLeasesNotCounted,
    /// The end of a lease frees no place.
    EndNotCounted,
    /// The end of a lease gives a line that is held no turn.
    HeldStaysHeld,
    /// The end of a lease rings no process.
    TurnBackRingsNobody,
    /// Another limit gives the lines that are held no turns.
    LimitChangeIgnored,
    /// A line that was served stays first.
    ServedStaysFirst,
    /// A line with a stale hint loses its turn.
    StaleHintEndsTurn,
    /// A push into a line without hints sets no turn.
    PushSetsNoTurn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum GroupedJobState {
    Ready,
    Leased,
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct GroupModelState {
    /// The group and the state of each job.
    jobs: Vec<(usize, GroupedJobState)>,
    /// The hints of each group.
    lines: [Vec<usize>; GROUPS],
    /// Groups by turn.
    turns: Vec<usize>,
    held: Vec<usize>,
    held_for: Option<usize>,
    limit: Option<usize>,
    running: [usize; GROUPS],
    is_waiting: bool,
    /// How often the second group was served since the first one waits for a place that it has.
    passed: [[u8; GROUPS]; GROUPS],
    is_over_limit: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupModelAction {
    Publish { group: usize },
    Reserve { count: usize },
    GiveBack { job: usize, at_head: bool },
    End { job: usize },
    SetLimit { limit: Option<usize> },
}

#[derive(Debug, Clone)]
struct Groups {
    planted: Option<PlantedGroupDefect>,
}

impl GroupModelState {
    fn count(&self, group: usize, state: GroupedJobState) -> usize {
        let jobs = self.jobs.iter();
        jobs.filter(|job| **job == (group, state)).count()
    }

    /// Whether a ready job of a group may be leased.
    fn may_run(&self, group: usize) -> bool {
        let leased = self.count(group, GroupedJobState::Leased);
        self.count(group, GroupedJobState::Ready) > 0
            && self.limit.is_none_or(|limit| leased < limit)
    }

    fn is_found(&self, group: usize) -> bool {
        let is_given_back = self.held_for.is_some() && self.held_for != self.limit;
        self.turns.contains(&group) || is_given_back && self.held.contains(&group)
    }
}

impl Groups {
    fn has(&self, planted: PlantedGroupDefect) -> bool {
        self.planted == Some(planted)
    }

    fn push(&self, world: &mut GroupModelState, job: usize, at_head: bool) {
        let (group, _) = world.jobs[job];
        let was_empty = world.lines[group].is_empty();
        match at_head {
            true => world.lines[group].insert(0, job),
            false => world.lines[group].push(job),
        }
        if was_empty && !self.has(PlantedGroupDefect::PushSetsNoTurn) {
            world.turns.push(group);
        }
        world.is_waiting &= !was_empty;
    }

    /// A lease of a group has ended.
    fn end_run(&self, world: &mut GroupModelState, group: usize) {
        if !self.has(PlantedGroupDefect::EndNotCounted) {
            world.running[group] = world.running[group].saturating_sub(1);
        }
        let is_held = world.held.contains(&group);
        if is_held && !self.has(PlantedGroupDefect::HeldStaysHeld) {
            world.held.retain(|held| *held != group);
            world.turns.push(group);
            world.is_waiting &= self.has(PlantedGroupDefect::TurnBackRingsNobody);
        }
    }

    fn places(&self, world: &GroupModelState, group: usize) -> usize {
        let limit = world.limit.unwrap_or(usize::MAX);
        limit.saturating_sub(world.running[group])
    }

    /// Takes up to `most` hints of a line. Returns how many jobs were leased.
    fn take(&self, world: &mut GroupModelState, group: usize, most: usize) -> usize {
        let mut leased = 0;
        for _ in 0..most.min(world.lines[group].len()) {
            let job = world.lines[group].remove(0);
            if world.jobs[job].1 == GroupedJobState::Ready {
                world.jobs[job].1 = GroupedJobState::Leased;
                leased += 1;
            }
        }
        if !self.has(PlantedGroupDefect::LeaseNotCounted) {
            world.running[group] += leased;
        }
        leased
    }

    /// Takes hints of the lines with the next turns. Returns how many jobs of each group were leased.
    fn take_in_turn(&self, world: &mut GroupModelState, most: usize) -> [usize; GROUPS] {
        let mut leased = [0; GROUPS];
        let lines: Vec<usize> = world.turns.iter().copied().take(most).collect();
        let share = (most / lines.len()).max(1);
        for group in &lines {
            let places = self.places(world, *group);
            let most = match self.has(PlantedGroupDefect::OwnLeasesNotCounted) && places > 0 {
                true => share,
                false => share.min(places),
            };
            leased[*group] = self.take(world, *group, most);
        }
        for group in &lines {
            if world.lines[*group].is_empty() {
                world.turns.retain(|line| line != group);
            } else if self.places(world, *group) == 0 {
                world.turns.retain(|line| line != group);
                world.held.push(*group);
                world.held_for = world.limit;
            }
        }
        // Lines that were served have their turns behind the others.
        let is_served = |line: &usize| match self.has(PlantedGroupDefect::StaleHintEndsTurn) {
            true => lines.contains(line),
            false => leased[*line] > 0,
        };
        if !self.has(PlantedGroupDefect::ServedStaysFirst) {
            world.turns.sort_by_key(is_served);
        }
        leased
    }

    fn reserve(&self, world: &mut GroupModelState, count: usize) {
        let before = world.running_jobs();
        let is_changed = world.held_for.is_some() && world.held_for != world.limit;
        if is_changed && !self.has(PlantedGroupDefect::LimitChangeIgnored) {
            let held = std::mem::take(&mut world.held);
            world.turns.extend(held);
            world.held_for = None;
        }
        let mut served = [0; GROUPS];
        while served.iter().sum::<usize>() < count && !world.turns.is_empty() {
            let most = count - served.iter().sum::<usize>();
            let leased = self.take_in_turn(world, most);
            for (all, leased) in served.iter_mut().zip(leased) {
                *all += leased;
            }
        }
        let limit = world.limit.unwrap_or(usize::MAX);
        let after = world.running_jobs();
        world.is_over_limit |= (0..GROUPS).any(|group| after[group] > before[group].max(limit));
        self.note_served(world, served);
        world.is_waiting = world.turns.is_empty();
    }

    fn note_served(&self, world: &mut GroupModelState, served: [usize; GROUPS]) {
        for group in 0..GROUPS {
            for (other, served_of_other) in served.iter().enumerate() {
                let waits = served[group] == 0 && world.may_run(group) && other != group;
                let passed = &mut world.passed[group][other];
                *passed = match waits {
                    true => (*passed + *served_of_other as u8).min(2),
                    false => 0,
                };
            }
        }
    }
}

impl GroupModelState {
    fn running_jobs(&self) -> [usize; GROUPS] {
        std::array::from_fn(|group| self.count(group, GroupedJobState::Leased))
    }

    /// A group that has no job for which it waits is passed by none.
    fn forget_passed(&mut self) {
        for group in 0..GROUPS {
            if !self.may_run(group) {
                self.passed[group] = [0; GROUPS];
            }
        }
    }
}

impl Model for Groups {
    type State = GroupModelState;
    type Action = GroupModelAction;

    fn init_states(&self) -> Vec<GroupModelState> {
        let init = |limit| GroupModelState {
            limit,
            ..GroupModelState::default()
        };
        LIMITS.map(init).to_vec()
    }

    fn actions(&self, world: &GroupModelState, actions: &mut Vec<GroupModelAction>) {
        if world.jobs.len() < JOBS_MAX {
            actions.extend((0..GROUPS).map(|group| GroupModelAction::Publish { group }));
        }
        actions.extend([1, 2, 3].map(|count| GroupModelAction::Reserve { count }));
        for (job, (_, state)) in world.jobs.iter().enumerate() {
            match state {
                GroupedJobState::Gone => continue,
                GroupedJobState::Leased => actions.extend(
                    [true, false].map(|at_head| GroupModelAction::GiveBack { job, at_head }),
                ),
                GroupedJobState::Ready => {}
            }
            actions.push(GroupModelAction::End { job });
        }
        let others = LIMITS.into_iter().filter(|limit| *limit != world.limit);
        actions.extend(others.map(|limit| GroupModelAction::SetLimit { limit }));
    }

    fn next_state(
        &self,
        before: &GroupModelState,
        action: GroupModelAction,
    ) -> Option<GroupModelState> {
        let mut world = before.clone();
        match action {
            GroupModelAction::Publish { group } => {
                world.jobs.push((group, GroupedJobState::Ready));
                self.push(&mut world, before.jobs.len(), false);
            }
            GroupModelAction::Reserve { count } => self.reserve(&mut world, count),
            GroupModelAction::GiveBack { job, at_head } => {
                world.jobs[job].1 = GroupedJobState::Ready;
                self.push(&mut world, job, at_head);
                self.end_run(&mut world, before.jobs[job].0);
            }
            GroupModelAction::End { job } => {
                let (group, state) = world.jobs[job];
                world.jobs[job].1 = GroupedJobState::Gone;
                if state == GroupedJobState::Leased {
                    self.end_run(&mut world, group);
                }
            }
            GroupModelAction::SetLimit { limit } => {
                let was = std::mem::replace(&mut world.limit, limit);
                // Processes whose consumers wait reserve again when a limit is raised.
                world.is_waiting &= was.is_none_or(|was| limit.is_some_and(|now| now < was));
            }
        }
        world.forget_passed();
        (world != *before).then_some(world)
    }

    fn within_boundary(&self, world: &GroupModelState) -> bool {
        world.lines.iter().map(Vec::len).sum::<usize>() <= HINTS_MAX
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(LIMITED, |_, world: &GroupModelState| !world.is_over_limit),
            Property::always(FOUND, |_, world: &GroupModelState| {
                (0..GROUPS).all(|group| !world.may_run(group) || world.is_found(group))
            }),
            Property::always(RUNG, |_, world: &GroupModelState| {
                !world.is_waiting || !(0..GROUPS).any(|group| world.may_run(group))
            }),
            Property::always(FAIR, |_, world: &GroupModelState| {
                world.passed.iter().flatten().all(|passed| *passed < 2)
            }),
            Property::sometimes("two groups are held", |_, world: &GroupModelState| {
                world.held.len() == 2
            }),
            Property::sometimes(
                "more jobs run than a lower limit allows",
                |_, world: &GroupModelState| world.limit == Some(1) && world.running.contains(&2),
            ),
        ]
    }
}

#[test]
fn no_group_exceeds_its_limit_waits_for_a_place_that_it_has_or_is_passed_twice() {
    let checker = Groups { planted: None };
    let checker = checker.checker().threads(THREADS).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn planted_defects_are_found() {
    for (planted, promise) in [
        (PlantedGroupDefect::LeaseNotCounted, LIMITED),
        (PlantedGroupDefect::OwnLeasesNotCounted, LIMITED),
        (PlantedGroupDefect::EndNotCounted, FOUND),
        (PlantedGroupDefect::HeldStaysHeld, FOUND),
        (PlantedGroupDefect::PushSetsNoTurn, FOUND),
        (PlantedGroupDefect::LimitChangeIgnored, RUNG),
        (PlantedGroupDefect::TurnBackRingsNobody, RUNG),
        (PlantedGroupDefect::ServedStaysFirst, FAIR),
        (PlantedGroupDefect::StaleHintEndsTurn, FAIR),
    ] {
        let groups = Groups {
            planted: Some(planted),
        };
        finds_violation(planted, groups, promise);
    }
}
