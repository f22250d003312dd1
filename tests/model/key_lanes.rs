//! Model of a key whose lane changes (`docs/decisions/0086-keys-on-lanes.md`), checked in every state of a small system.
//! Publishes, cancels and checks of settled values act on any row of the table that there was, and each of their calls
//! is executed at any time, or never. The table may lose its last changes.
//!
//! Each script is modelled as one step. `tests/tests/store/key_lanes.rs` checks that the scripts do the same.

use std::collections::BTreeSet;

use stateright::{Checker, Model, Property};

use super::{THREADS, finds_violation};

const LANES: usize = 3;
const PUBLISHERS: usize = 2;
/// A queue with as many former numbers of lanes gets no further one.
const FORMERS_MAX: usize = 2;
const UNIQUE: &str = "at most one unfinished job has the key";
const FOUND: &str = "a job that is there all the time is found by its key";
const ACCEPTED: &str = "a lane refuses no call that is made with the present row";

/// A defect in a script or an API process. The checker must find each of them, or its success proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PlantedKeyDefect {
    AskLeavesFloor,
    CreateIgnoresFloor,
    CreateBeforeAsks,
    AskSkipsFormer,
    SetForgetsFormers,
    SetKeepsEpoch,
    SettleLeavesFloor,
    SettleSkipsLane,
    SettleIgnoresEpoch,
    LookIgnoresFloor,
    LookSkipsFormer,
    SameEpochIsSameRow,
    LastEpochIsRow,
    RaiseForgetsLostNumber,
    RaiseForgetsLostFormers,
}

/// The row of the queue in `tg:lanes`. A queue with one lane and no former number has none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct KeyRow {
    open: usize,
    /// Without a row: the last epoch of the table.
    epoch: u64,
    formers: BTreeSet<usize>,
    is_stored: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct KeyLane {
    /// The last row with which it was asked for a key without creating a job.
    floor: KeyRow,
    /// Unfinished jobs with the key.
    jobs: usize,
}

/// A call of a client that asks one lane after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Asking {
    row: KeyRow,
    asked: [bool; LANES],
    /// Whether there was a job at each moment since the call began.
    was_there: bool,
    /// With a planted defect: it has stored its job.
    has_created: bool,
}

/// An API process that finds out whether a former number of lanes is still needed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Settling {
    row: KeyRow,
    former: usize,
    checked: [bool; LANES],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct KeyModelState {
    row: KeyRow,
    /// The last epoch of the table.
    last_epoch: u64,
    /// All rows so far: any process may act on any of them.
    rows: BTreeSet<KeyRow>,
    lanes: [KeyLane; LANES],
    publishers: [Option<Asking>; PUBLISHERS],
    canceller: Option<Asking>,
    settler: Option<Settling>,
    settles: usize,
    sets: usize,
    other_sets: usize,
    created: usize,
    losses: usize,
    cancels: usize,
    /// A call by the key did not find a job that was there all the time.
    has_missed: bool,
    was_refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyModelAction {
    Set { open: usize },
    SetOther,
    Lose { row: KeyRow },
    Begin { publisher: usize, row: KeyRow },
    Ask { publisher: usize, lane: usize },
    Create { publisher: usize },
    BeginCancel { row: KeyRow },
    Cancel { lane: usize },
    End { lane: usize },
    BeginSettle { row: KeyRow, former: usize },
    Check { lane: usize },
    Settle,
}

#[derive(Debug, Clone)]
struct Keys {
    /// The lane of the key by the number of open lanes.
    lane_of: [usize; LANES + 1],
    sets: usize,
    creates: usize,
    cancels: usize,
    settles: usize,
    other_sets: usize,
    losses: usize,
    planted: Option<PlantedKeyDefect>,
}

impl KeyModelState {
    fn jobs(&self) -> usize {
        self.lanes.iter().map(|lane| lane.jobs).sum()
    }

    fn note_absence(&mut self) {
        if self.jobs() == 0 {
            let publishing = self.publishers.iter_mut().flatten();
            for asking in publishing.chain(self.canceller.iter_mut()) {
                asking.was_there = false;
            }
        }
    }
}

impl Keys {
    fn has(&self, planted: PlantedKeyDefect) -> bool {
        self.planted == Some(planted)
    }

    /// Whether a lane refuses a call with this row.
    fn is_stale(&self, lane: &KeyLane, row: &KeyRow) -> bool {
        let is_other =
            lane.floor.open != row.open && !self.has(PlantedKeyDefect::SameEpochIsSameRow);
        let has_lost_row = lane.floor.open != 1 && !self.has(PlantedKeyDefect::LastEpochIsRow);
        lane.floor.epoch > row.epoch
            || lane.floor.epoch == row.epoch && row.is_stored && is_other
            || !row.is_stored && has_lost_row
    }

    /// The former lanes of the key, by a row.
    fn former_lanes(&self, row: &KeyRow, skips: bool) -> BTreeSet<usize> {
        let formers = row.formers.iter().skip(usize::from(skips));
        let mut lanes: BTreeSet<usize> = formers.map(|open| self.lane_of[*open]).collect();
        lanes.remove(&self.lane_of[row.open]);
        lanes
    }

    fn keep(world: &mut KeyModelState, mut row: KeyRow) {
        world.last_epoch = world.last_epoch.max(row.epoch);
        row.is_stored = row.open > 1 || !row.formers.is_empty();
        if !row.is_stored {
            row.epoch = world.last_epoch;
        }
        world.rows.insert(row.clone());
        world.row = row;
    }

    fn set(&self, world: &mut KeyModelState, open: usize) {
        let mut row = world.row.clone();
        if self.has(PlantedKeyDefect::SetForgetsFormers) {
            row.formers.clear();
        }
        row.formers.insert(row.open);
        row.formers.remove(&open);
        row.open = open;
        if !self.has(PlantedKeyDefect::SetKeepsEpoch) || row.epoch == 0 {
            row.epoch = world.last_epoch + 1;
        }
        world.sets += 1;
        Self::keep(world, row);
    }

    /// After a call was refused: the table has lost the row of the lane's floor if its own is not later.
    fn refused(&self, world: &mut KeyModelState, lane: usize) {
        world.was_refused = true;
        if !self.is_stale(&world.lanes[lane], &world.row) {
            return;
        }
        let mut row = world.row.clone();
        let floor = &world.lanes[lane].floor;
        row.epoch = floor.epoch.max(world.last_epoch) + 1;
        if !self.has(PlantedKeyDefect::RaiseForgetsLostNumber) {
            row.formers.insert(floor.open);
        }
        if !self.has(PlantedKeyDefect::RaiseForgetsLostFormers) {
            row.formers.extend(&floor.formers);
        }
        row.formers.remove(&row.open);
        Self::keep(world, row);
    }

    fn raise(lane: &mut KeyLane, row: &KeyRow) {
        if row.is_stored && lane.floor.epoch < row.epoch {
            lane.floor = row.clone();
        }
    }

    /// Asks a former lane without creating.
    fn ask(&self, world: &mut KeyModelState, publisher: usize, lane: usize) -> Option<()> {
        let mut asking = world.publishers[publisher].take()?;
        if self.is_stale(&world.lanes[lane], &asking.row) {
            self.refused(world, lane);
            return Some(());
        }
        let asked = &mut world.lanes[lane];
        if !self.has(PlantedKeyDefect::AskLeavesFloor) {
            Self::raise(asked, &asking.row);
        }
        if asked.jobs == 0 && !asking.has_created {
            asking.asked[lane] = true;
            world.publishers[publisher] = Some(asking);
        }
        Some(())
    }

    fn create(&self, world: &mut KeyModelState, publisher: usize) -> Option<()> {
        let mut asking = world.publishers[publisher].take()?;
        let lane = self.lane_of[asking.row.open];
        if self.is_stale(&world.lanes[lane], &asking.row)
            && !self.has(PlantedKeyDefect::CreateIgnoresFloor)
        {
            self.refused(world, lane);
            return Some(());
        }
        if world.lanes[lane].jobs > 0 {
            return Some(());
        }
        world.lanes[lane].jobs += 1;
        world.created += 1;
        if self.has(PlantedKeyDefect::CreateBeforeAsks) {
            asking.has_created = true;
            world.publishers[publisher] = Some(asking);
        }
        Some(())
    }

    /// Cancels the job of the key, if it is in this lane.
    fn cancel(&self, world: &mut KeyModelState, lane: usize) -> Option<()> {
        let mut asking = world.canceller.take()?;
        if self.is_stale(&world.lanes[lane], &asking.row)
            && !self.has(PlantedKeyDefect::LookIgnoresFloor)
        {
            self.refused(world, lane);
            return Some(());
        }
        if world.lanes[lane].jobs > 0 {
            world.lanes[lane].jobs -= 1;
            return Some(());
        }
        asking.asked[lane] = true;
        if lane == self.lane_of[asking.row.open] {
            world.has_missed |= asking.was_there;
        } else {
            world.canceller = Some(asking);
        }
        Some(())
    }

    /// Finds out whether a job in a lane needs the former number.
    fn check(&self, world: &mut KeyModelState, lane: usize) -> Option<()> {
        let mut settling = world.settler.take()?;
        let checked = &mut world.lanes[lane];
        if self.is_stale(checked, &settling.row) {
            self.refused(world, lane);
            return Some(());
        }
        if !self.has(PlantedKeyDefect::SettleLeavesFloor) {
            Self::raise(checked, &settling.row);
        }
        let needs_former = checked.jobs > 0
            && lane != self.lane_of[settling.row.open]
            && lane == self.lane_of[settling.former];
        if !needs_former {
            settling.checked[lane] = true;
            world.settler = Some(settling);
        }
        Some(())
    }

    fn settle(&self, world: &mut KeyModelState) -> Option<()> {
        let Settling { row, former, .. } = world.settler.take()?;
        let is_same = match self.has(PlantedKeyDefect::SettleIgnoresEpoch) {
            true => world.row.open == row.open,
            false => (world.row.open, world.row.epoch) == (row.open, row.epoch),
        };
        if is_same {
            let mut row = world.row.clone();
            row.formers.remove(&former);
            Self::keep(world, row);
        }
        Some(())
    }

    fn asking(world: &KeyModelState, row: &KeyRow) -> Asking {
        Asking {
            row: row.clone(),
            asked: [false; LANES],
            was_there: world.jobs() > 0,
            has_created: false,
        }
    }

    fn publisher_actions(&self, world: &KeyModelState, actions: &mut Vec<KeyModelAction>) {
        for (publisher, state) in world.publishers.iter().enumerate() {
            let Some(asking) = state else {
                if world.created < self.creates {
                    let begin = |row: &KeyRow| KeyModelAction::Begin {
                        publisher,
                        row: row.clone(),
                    };
                    actions.extend(world.rows.iter().map(begin));
                }
                continue;
            };
            let skips = self.has(PlantedKeyDefect::AskSkipsFormer);
            let mut lanes = self.former_lanes(&asking.row, skips).into_iter();
            let next = lanes.find(|lane| !asking.asked[*lane]);
            if self.has(PlantedKeyDefect::CreateBeforeAsks) && !asking.has_created {
                actions.push(KeyModelAction::Create { publisher });
            } else if let Some(lane) = next {
                actions.push(KeyModelAction::Ask { publisher, lane });
            } else if !asking.has_created {
                actions.push(KeyModelAction::Create { publisher });
            }
        }
    }

    fn canceller_actions(&self, world: &KeyModelState, actions: &mut Vec<KeyModelAction>) {
        let Some(asking) = &world.canceller else {
            if world.cancels < self.cancels {
                let begin = |row: &KeyRow| KeyModelAction::BeginCancel { row: row.clone() };
                actions.extend(world.rows.iter().map(begin));
            }
            return;
        };
        let skips = self.has(PlantedKeyDefect::LookSkipsFormer);
        let mut lanes = self.former_lanes(&asking.row, skips).into_iter();
        let next = lanes.find(|lane| !asking.asked[*lane]);
        actions.push(KeyModelAction::Cancel {
            lane: next.unwrap_or(self.lane_of[asking.row.open]),
        });
    }

    fn settler_actions(&self, world: &KeyModelState, actions: &mut Vec<KeyModelAction>) {
        let Some(Settling {
            row,
            former,
            checked,
        }) = &world.settler
        else {
            let is_over = world.settles == self.settles;
            for row in world.rows.iter().filter(|_| !is_over) {
                actions.extend(
                    row.formers
                        .iter()
                        .map(|former| KeyModelAction::BeginSettle {
                            row: row.clone(),
                            former: *former,
                        }),
                );
            }
            return;
        };
        let skipped = usize::from(self.has(PlantedKeyDefect::SettleSkipsLane));
        let lanes = row.open.max(*former);
        match (skipped..lanes).find(|lane| !checked[*lane]) {
            Some(lane) => actions.push(KeyModelAction::Check { lane }),
            None => actions.push(KeyModelAction::Settle),
        }
    }
}

impl Model for Keys {
    type State = KeyModelState;
    type Action = KeyModelAction;

    fn init_states(&self) -> Vec<KeyModelState> {
        let row = KeyRow {
            open: 1,
            epoch: 0,
            formers: BTreeSet::new(),
            is_stored: false,
        };
        vec![KeyModelState {
            rows: BTreeSet::from([row.clone()]),
            lanes: std::array::from_fn(|_| KeyLane {
                floor: row.clone(),
                jobs: 0,
            }),
            row,
            last_epoch: 0,
            publishers: [const { None }; PUBLISHERS],
            canceller: None,
            settler: None,
            settles: 0,
            sets: 0,
            other_sets: 0,
            created: 0,
            losses: 0,
            cancels: 0,
            has_missed: false,
            was_refused: false,
        }]
    }

    fn actions(&self, world: &KeyModelState, actions: &mut Vec<KeyModelAction>) {
        if world.sets < self.sets {
            let others = (1..=LANES).filter(|open| {
                let mut formers = world.row.formers.clone();
                formers.insert(world.row.open);
                formers.remove(open);
                *open != world.row.open && formers.len() <= FORMERS_MAX
            });
            actions.extend(others.map(|open| KeyModelAction::Set { open }));
        }
        if world.other_sets < self.other_sets {
            actions.push(KeyModelAction::SetOther);
        }
        if world.losses < self.losses {
            let earlier = world.rows.iter().filter(|row| row.epoch < world.row.epoch);
            actions.extend(earlier.map(|row| KeyModelAction::Lose { row: row.clone() }));
        }
        self.publisher_actions(world, actions);
        self.canceller_actions(world, actions);
        self.settler_actions(world, actions);
        let with_jobs = (0..LANES).filter(|lane| world.lanes[*lane].jobs > 0);
        actions.extend(with_jobs.map(|lane| KeyModelAction::End { lane }));
    }

    fn next_state(&self, before: &KeyModelState, action: KeyModelAction) -> Option<KeyModelState> {
        let mut world = before.clone();
        match action {
            KeyModelAction::Set { open } => self.set(&mut world, open),
            KeyModelAction::SetOther => {
                world.last_epoch += 1;
                world.other_sets += 1;
                let row = world.row.clone();
                Self::keep(&mut world, row);
            }
            KeyModelAction::Lose { row } => {
                world.last_epoch = row.epoch;
                world.row = row;
                world.losses += 1;
            }
            KeyModelAction::Begin { publisher, row } => {
                world.publishers[publisher] = Some(Self::asking(&world, &row));
            }
            KeyModelAction::Ask { publisher, lane } => self.ask(&mut world, publisher, lane)?,
            KeyModelAction::Create { publisher } => self.create(&mut world, publisher)?,
            KeyModelAction::BeginCancel { row } => {
                world.cancels += 1;
                world.canceller = Some(Self::asking(&world, &row));
            }
            KeyModelAction::Cancel { lane } => self.cancel(&mut world, lane)?,
            KeyModelAction::End { lane } => world.lanes[lane].jobs -= 1,
            KeyModelAction::BeginSettle { row, former } => {
                let checked = [false; LANES];
                world.settles += 1;
                world.settler = Some(Settling {
                    row,
                    former,
                    checked,
                });
            }
            KeyModelAction::Check { lane } => self.check(&mut world, lane)?,
            KeyModelAction::Settle => self.settle(&mut world)?,
        }
        world.note_absence();
        // Both are the same.
        world.publishers.sort();
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(UNIQUE, |_, world: &KeyModelState| world.jobs() <= 1),
            Property::always(FOUND, |_, world: &KeyModelState| !world.has_missed),
            Property::always(ACCEPTED, |model: &Self, world: &KeyModelState| {
                let mut lanes = world.lanes.iter();
                world.losses > 0 || !lanes.any(|lane| model.is_stale(lane, &world.row))
            }),
            Property::sometimes(
                "a call with an old row is refused",
                |_, world: &KeyModelState| world.was_refused,
            ),
            Property::sometimes("a former number is settled", |_, world: &KeyModelState| {
                world.row.open > 1 && world.row.formers.is_empty() && world.created > 0
            }),
            Property::sometimes(
                "a job is in a former lane",
                |model: &Self, world: &KeyModelState| {
                    world.jobs() > 0 && world.lanes[model.lane_of[world.row.open]].jobs == 0
                },
            ),
        ]
    }
}

/// A key that has another lane after each change, and one that returns to its first lane.
const LANES_OF: [[usize; LANES + 1]; 2] = [[0, 0, 1, 2], [0, 0, 1, 0]];

const SMALL: Keys = Keys {
    lane_of: LANES_OF[0],
    sets: 2,
    creates: 2,
    cancels: 1,
    settles: 1,
    other_sets: 0,
    losses: 0,
    planted: None,
};

#[test]
fn a_key_has_one_job_while_the_number_of_lanes_changes() {
    for lane_of in LANES_OF {
        for (sets, settles, cancels, losses, other_sets) in [
            (3, 1, 0, 0, 0),
            (2, 1, 1, 0, 0),
            (2, 2, 0, 1, 0),
            (2, 1, 0, 0, 2),
            // With two lost rows, and as late an epoch of another queue, a key may get a second job: not promised.
            (1, 1, 0, 1, 2),
        ] {
            let keys = Keys {
                lane_of,
                sets,
                cancels,
                settles,
                losses,
                other_sets,
                ..SMALL
            };
            let checker = keys.checker().threads(THREADS).spawn_bfs().join();
            println!("{} states", checker.unique_state_count());
            checker.assert_properties();
        }
    }
}

#[test]
fn planted_defects_are_found() {
    use PlantedKeyDefect::*;
    for (planted, promise) in [
        (AskLeavesFloor, UNIQUE),
        (CreateIgnoresFloor, UNIQUE),
        (CreateBeforeAsks, UNIQUE),
        (AskSkipsFormer, UNIQUE),
        (SetForgetsFormers, UNIQUE),
        (SetKeepsEpoch, ACCEPTED),
        (SettleLeavesFloor, UNIQUE),
        (SettleSkipsLane, UNIQUE),
        (SettleIgnoresEpoch, UNIQUE),
        (LookIgnoresFloor, FOUND),
        (LookSkipsFormer, FOUND),
    ] {
        let keys = Keys {
            sets: if planted == SettleIgnoresEpoch { 3 } else { 2 },
            planted: Some(planted),
            ..SMALL
        };
        finds_violation(planted, keys, promise);
    }
    for planted in [
        SameEpochIsSameRow,
        LastEpochIsRow,
        RaiseForgetsLostNumber,
        RaiseForgetsLostFormers,
    ] {
        let keys = Keys {
            losses: 1,
            cancels: 0,
            settles: 2,
            sets: if planted == LastEpochIsRow { 1 } else { 2 },
            other_sets: usize::from(planted == LastEpochIsRow),
            planted: Some(planted),
            ..SMALL
        };
        finds_violation(planted, keys, UNIQUE);
    }
}
