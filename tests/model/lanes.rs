//! Model of the protocol that closes lanes (`docs/decisions/0022-lanes.md`), checked in every state of a small system.
//! Each call is executed at any time after its caller read the row that it acts on, or never. This covers stalled
//! connections, stopped processes, lost replies and reordered calls.
//!
//! Each script is modelled as one step. `tests/tests/store/lanes.rs` checks that the scripts do the same.

use std::collections::BTreeSet;

use stateright::{Checker, Model, Property};

use super::{THREADS, finds_violation};

/// Lane 0 is never closed.
const LANES: usize = 3;
const SETTLERS: usize = 2;
const SERVED: &str = "every job is in a lane that consumers read";
const OPENS: &str = "a lane that should take jobs can be opened";

/// A defect in a script or an API process. The checker must find each of them, or its success proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PlantedLaneDefect {
    PublishIgnoresMarker,
    CloseIgnoresJobs,
    CloseKeepsOldEpoch,
    OpenIgnoresEpoch,
    SettleIgnoresEpoch,
    DeletedRowRestartsEpochs,
    SetKeepsEpoch,
    SetLowersUsed,
    SettleSkipsLane,
}

/// The row of the queue in `tg:lanes`. A queue without a row has one lane and epoch 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ModelRow {
    open: usize,
    used: usize,
    epoch: u64,
}

const NO_ROW: ModelRow = ModelRow {
    open: 1,
    used: 1,
    epoch: 0,
};

/// A lane in its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct ModelLane {
    /// The epoch with which it is closed.
    closed: Option<u64>,
    jobs: usize,
}

/// An API process that closes the lanes of the row that it read, from the last one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ModelSettler {
    row: ModelRow,
    still: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LaneModelState {
    row: ModelRow,
    last_epoch: u64,
    lanes: [ModelLane; LANES],
    settlers: [Option<ModelSettler>; SETTLERS],
    /// All rows so far: any process may act on any of them.
    rows: BTreeSet<ModelRow>,
    published: usize,
    sets: usize,
    was_refused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneModelAction {
    Set {
        open: usize,
    },
    Open {
        lane: usize,
        epoch: u64,
    },
    Look {
        settler: usize,
        row: ModelRow,
    },
    Close {
        settler: usize,
    },
    /// A close by a settler that no longer waits for the reply.
    CloseLate {
        lane: usize,
        epoch: u64,
    },
    Settle {
        settler: usize,
    },
    Publish {
        lane: usize,
    },
    Consume {
        lane: usize,
    },
}

#[derive(Debug, Clone)]
struct Protocol {
    sets: usize,
    jobs: usize,
    planted: Option<PlantedLaneDefect>,
}

impl Protocol {
    fn has(&self, planted: PlantedLaneDefect) -> bool {
        self.planted == Some(planted)
    }

    fn set(&self, world: &mut LaneModelState, open: usize) {
        let row = &mut world.row;
        if !self.has(PlantedLaneDefect::SetKeepsEpoch) || row.epoch == 0 {
            world.last_epoch += 1;
            row.epoch = world.last_epoch;
        }
        row.used = match self.has(PlantedLaneDefect::SetLowersUsed) {
            true => open,
            false => row.used.max(open),
        };
        row.open = open;
        world.sets += 1;
        self.keep(world);
    }

    fn keep(&self, world: &mut LaneModelState) {
        if world.row.used == 1 {
            world.row = NO_ROW;
            if self.has(PlantedLaneDefect::DeletedRowRestartsEpochs) {
                world.last_epoch = 0;
            }
        }
        world.rows.insert(world.row);
    }

    fn open(&self, lane: &mut ModelLane, epoch: u64) {
        let opens = |closed| closed < epoch || self.has(PlantedLaneDefect::OpenIgnoresEpoch);
        if lane.closed.is_some_and(opens) {
            lane.closed = None;
        }
    }

    /// Returns whether the lane is closed now.
    fn close(&self, lane: &mut ModelLane, epoch: u64) -> bool {
        if lane.jobs > 0 && !self.has(PlantedLaneDefect::CloseIgnoresJobs) {
            return false;
        }
        lane.closed = match lane.closed {
            Some(closed) if self.has(PlantedLaneDefect::CloseKeepsOldEpoch) => Some(closed),
            closed => closed.max(Some(epoch)),
        };
        true
    }

    fn settle(&self, world: &mut LaneModelState, ModelSettler { row, still }: ModelSettler) {
        let is_same = match self.has(PlantedLaneDefect::SettleIgnoresEpoch) {
            true => (world.row.open, world.row.used) == (row.open, row.used),
            false => world.row == row,
        };
        if is_same {
            world.row.used = still;
            self.keep(world);
        }
    }

    fn publish(&self, world: &mut LaneModelState, lane: usize) {
        let is_closed = world.lanes[lane].closed.is_some();
        let lane = match is_closed && !self.has(PlantedLaneDefect::PublishIgnoresMarker) {
            true => 0,
            false => lane,
        };
        world.was_refused |= is_closed;
        world.lanes[lane].jobs += 1;
        world.published += 1;
    }
}

impl Model for Protocol {
    type State = LaneModelState;
    type Action = LaneModelAction;

    fn init_states(&self) -> Vec<LaneModelState> {
        vec![LaneModelState {
            row: NO_ROW,
            last_epoch: 0,
            lanes: [ModelLane::default(); LANES],
            settlers: [None; SETTLERS],
            rows: BTreeSet::from([NO_ROW]),
            published: 0,
            sets: 0,
            was_refused: false,
        }]
    }

    fn actions(&self, world: &LaneModelState, actions: &mut Vec<LaneModelAction>) {
        if world.sets < self.sets {
            actions.extend((1..=LANES).map(|open| LaneModelAction::Set { open }));
        }
        for row in &world.rows {
            let ModelRow { open, used, epoch } = *row;
            actions.extend((1..open).map(|lane| LaneModelAction::Open { lane, epoch }));
            actions.extend((open..used).map(|lane| LaneModelAction::CloseLate { lane, epoch }));
            if used > open {
                let look = |settler| LaneModelAction::Look { settler, row: *row };
                actions.extend((0..SETTLERS).map(look));
            }
        }
        for (settler, state) in world.settlers.iter().enumerate() {
            let Some(ModelSettler { row, still }) = state else {
                continue;
            };
            if *still > row.open {
                actions.push(LaneModelAction::Close { settler });
            }
            if *still < row.used {
                actions.push(LaneModelAction::Settle { settler });
            }
        }
        let believed_open = world.rows.iter().map(|row| row.open).max().unwrap_or(1);
        if world.published < self.jobs {
            actions.extend((0..believed_open).map(|lane| LaneModelAction::Publish { lane }));
        }
        let has_jobs = |lane: &usize| world.lanes[*lane].jobs > 0;
        let offered = (0..world.row.used).filter(has_jobs);
        actions.extend(offered.map(|lane| LaneModelAction::Consume { lane }));
    }

    fn next_state(
        &self,
        before: &LaneModelState,
        action: LaneModelAction,
    ) -> Option<LaneModelState> {
        let mut world = before.clone();
        match action {
            LaneModelAction::Set { open } => self.set(&mut world, open),
            LaneModelAction::Open { lane, epoch } => self.open(&mut world.lanes[lane], epoch),
            LaneModelAction::Look { settler, row } => {
                let still = row.used;
                world.settlers[settler] = Some(ModelSettler { row, still });
            }
            LaneModelAction::Close { settler } => {
                let state = world.settlers[settler].as_mut()?;
                let lane = &mut world.lanes[state.still - 1];
                if self.close(lane, state.row.epoch) {
                    state.still -= 1;
                    if self.has(PlantedLaneDefect::SettleSkipsLane) && state.still > state.row.open
                    {
                        state.still -= 1;
                    }
                } else if state.still == state.row.used {
                    world.settlers[settler] = None;
                }
            }
            LaneModelAction::CloseLate { lane, epoch } => {
                self.close(&mut world.lanes[lane], epoch);
            }
            LaneModelAction::Settle { settler } => {
                let state = world.settlers[settler].take()?;
                self.settle(&mut world, state);
            }
            LaneModelAction::Publish { lane } => self.publish(&mut world, lane),
            LaneModelAction::Consume { lane } => world.lanes[lane].jobs -= 1,
        }
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SERVED, |_, world: &LaneModelState| {
                let unused = &world.lanes[world.row.used..];
                unused.iter().all(|lane| lane.jobs == 0)
            }),
            Property::always(
                "a lane that is not closed is used",
                |_, world: &LaneModelState| {
                    let opened = world.rows.iter().map(|row| row.open).max().unwrap_or(1);
                    let mut unused = world.row.used..opened.max(world.row.used);
                    unused.all(|lane| world.lanes[lane].closed.is_some())
                },
            ),
            Property::always(OPENS, |_, world: &LaneModelState| {
                let lanes = &world.lanes[..world.row.open];
                let opens =
                    |lane: &ModelLane| lane.closed.is_none_or(|closed| closed < world.row.epoch);
                lanes.iter().all(opens)
            }),
            Property::always("lane 0 is never closed", |_, world: &LaneModelState| {
                world.lanes[0].closed.is_none()
            }),
            Property::sometimes("a late publish is refused", |_, world: &LaneModelState| {
                world.was_refused && world.row == NO_ROW
            }),
            Property::sometimes(
                "lanes that settled take jobs again",
                |_, world: &LaneModelState| {
                    world.rows.len() > 3 && world.rows.contains(&NO_ROW) && world.lanes[1].jobs > 0
                },
            ),
        ]
    }
}

#[test]
fn no_job_is_stranded_by_lanes_that_close() {
    let protocol = Protocol {
        sets: 4,
        jobs: 2,
        planted: None,
    };
    let checker = protocol.checker().threads(THREADS).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn planted_defects_are_found() {
    for (planted, promise) in [
        (PlantedLaneDefect::PublishIgnoresMarker, SERVED),
        (PlantedLaneDefect::CloseIgnoresJobs, SERVED),
        (PlantedLaneDefect::CloseKeepsOldEpoch, SERVED),
        (PlantedLaneDefect::OpenIgnoresEpoch, SERVED),
        (PlantedLaneDefect::SettleIgnoresEpoch, SERVED),
        (PlantedLaneDefect::SetLowersUsed, SERVED),
        (PlantedLaneDefect::SettleSkipsLane, SERVED),
        (PlantedLaneDefect::SetKeepsEpoch, OPENS),
        (PlantedLaneDefect::DeletedRowRestartsEpochs, OPENS),
    ] {
        let protocol = Protocol {
            sets: 4,
            jobs: 1,
            planted: Some(planted),
        };
        finds_violation(planted, protocol, promise);
    }
}
