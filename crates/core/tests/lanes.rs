//! The protocol that closes lanes (`docs/decisions/0022-lanes.md`), checked in every state of a small world: each call is
//! carried out at any time after its caller read what it acts on, or never. That covers stalled connections, stopped
//! processes, lost answers and calls that overtake each other.
//!
//! Scripts are modelled as one step each. `tests/tests/store/lanes.rs` checks that the real ones do the same.

#![allow(
    clippy::print_stdout,
    reason = "how many states were seen, and how mistakes were found"
)]

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

const THREADS: usize = 2;
/// Lane 0 is never closed.
const LANES: usize = 3;
const SETTLERS: usize = 2;
const SERVED: &str = "every job is in a lane that consumers look into";
const OPENS: &str = "a lane that should take jobs can be opened";

/// A mistake in a script or an API. A checker that does not find it proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Planted {
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

/// What `tg:lanes` holds of the queue. A queue without a row has one lane; its epoch is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Row {
    open: usize,
    used: usize,
    epoch: u64,
}

const NO_ROW: Row = Row {
    open: 1,
    used: 1,
    epoch: 0,
};

/// A lane in its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Lane {
    /// The epoch of its marker.
    closed: Option<u64>,
    jobs: usize,
}

/// An API that closes lanes of the row that it read, the last one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Settler {
    row: Row,
    still: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    row: Row,
    last_epoch: u64,
    lanes: [Lane; LANES],
    settlers: [Option<Settler>; SETTLERS],
    /// All rows that there ever were: any process may act on any of them.
    rows: BTreeSet<Row>,
    published: usize,
    sets: usize,
    was_refused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Set {
        open: usize,
    },
    Open {
        lane: usize,
        epoch: u64,
    },
    Look {
        settler: usize,
        row: Row,
    },
    Close {
        settler: usize,
    },
    /// A settler that no longer waits for the answer.
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
    planted: Option<Planted>,
}

impl Protocol {
    fn has(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    fn set(&self, world: &mut World, open: usize) {
        let row = &mut world.row;
        if !self.has(Planted::SetKeepsEpoch) || row.epoch == 0 {
            world.last_epoch += 1;
            row.epoch = world.last_epoch;
        }
        row.used = match self.has(Planted::SetLowersUsed) {
            true => open,
            false => row.used.max(open),
        };
        row.open = open;
        world.sets += 1;
        self.keep(world);
    }

    fn keep(&self, world: &mut World) {
        if world.row.used == 1 {
            world.row = NO_ROW;
            if self.has(Planted::DeletedRowRestartsEpochs) {
                world.last_epoch = 0;
            }
        }
        world.rows.insert(world.row);
    }

    fn open(&self, lane: &mut Lane, epoch: u64) {
        let opens = |closed| closed < epoch || self.has(Planted::OpenIgnoresEpoch);
        if lane.closed.is_some_and(opens) {
            lane.closed = None;
        }
    }

    /// Whether the lane is closed now.
    fn close(&self, lane: &mut Lane, epoch: u64) -> bool {
        if lane.jobs > 0 && !self.has(Planted::CloseIgnoresJobs) {
            return false;
        }
        lane.closed = match lane.closed {
            Some(closed) if self.has(Planted::CloseKeepsOldEpoch) => Some(closed),
            closed => closed.max(Some(epoch)),
        };
        true
    }

    fn settle(&self, world: &mut World, Settler { row, still }: Settler) {
        let is_same = match self.has(Planted::SettleIgnoresEpoch) {
            true => (world.row.open, world.row.used) == (row.open, row.used),
            false => world.row == row,
        };
        if is_same {
            world.row.used = still;
            self.keep(world);
        }
    }

    fn publish(&self, world: &mut World, lane: usize) {
        let is_closed = world.lanes[lane].closed.is_some();
        let lane = match is_closed && !self.has(Planted::PublishIgnoresMarker) {
            true => 0,
            false => lane,
        };
        world.was_refused |= is_closed;
        world.lanes[lane].jobs += 1;
        world.published += 1;
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            row: NO_ROW,
            last_epoch: 0,
            lanes: [Lane::default(); LANES],
            settlers: [None; SETTLERS],
            rows: BTreeSet::from([NO_ROW]),
            published: 0,
            sets: 0,
            was_refused: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.sets < self.sets {
            actions.extend((1..=LANES).map(|open| Action::Set { open }));
        }
        for row in &world.rows {
            let Row { open, used, epoch } = *row;
            actions.extend((1..open).map(|lane| Action::Open { lane, epoch }));
            actions.extend((open..used).map(|lane| Action::CloseLate { lane, epoch }));
            if used > open {
                let look = |settler| Action::Look { settler, row: *row };
                actions.extend((0..SETTLERS).map(look));
            }
        }
        for (settler, state) in world.settlers.iter().enumerate() {
            let Some(Settler { row, still }) = state else {
                continue;
            };
            if *still > row.open {
                actions.push(Action::Close { settler });
            }
            if *still < row.used {
                actions.push(Action::Settle { settler });
            }
        }
        let believed_open = world.rows.iter().map(|row| row.open).max().unwrap_or(1);
        if world.published < self.jobs {
            actions.extend((0..believed_open).map(|lane| Action::Publish { lane }));
        }
        let has_jobs = |lane: &usize| world.lanes[*lane].jobs > 0;
        let offered = (0..world.row.used).filter(has_jobs);
        actions.extend(offered.map(|lane| Action::Consume { lane }));
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        match action {
            Action::Set { open } => self.set(&mut world, open),
            Action::Open { lane, epoch } => self.open(&mut world.lanes[lane], epoch),
            Action::Look { settler, row } => {
                let still = row.used;
                world.settlers[settler] = Some(Settler { row, still });
            }
            Action::Close { settler } => {
                let state = world.settlers[settler].as_mut()?;
                let lane = &mut world.lanes[state.still - 1];
                if self.close(lane, state.row.epoch) {
                    state.still -= 1;
                    if self.has(Planted::SettleSkipsLane) && state.still > state.row.open {
                        state.still -= 1;
                    }
                } else if state.still == state.row.used {
                    world.settlers[settler] = None;
                }
            }
            Action::CloseLate { lane, epoch } => {
                self.close(&mut world.lanes[lane], epoch);
            }
            Action::Settle { settler } => {
                let state = world.settlers[settler].take()?;
                self.settle(&mut world, state);
            }
            Action::Publish { lane } => self.publish(&mut world, lane),
            Action::Consume { lane } => world.lanes[lane].jobs -= 1,
        }
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SERVED, |_, world: &World| {
                let unused = &world.lanes[world.row.used..];
                unused.iter().all(|lane| lane.jobs == 0)
            }),
            Property::always("a lane that is not closed is used", |_, world: &World| {
                let opened = world.rows.iter().map(|row| row.open).max().unwrap_or(1);
                let mut unused = world.row.used..opened.max(world.row.used);
                unused.all(|lane| world.lanes[lane].closed.is_some())
            }),
            Property::always(OPENS, |_, world: &World| {
                let lanes = &world.lanes[..world.row.open];
                let opens = |lane: &Lane| lane.closed.is_none_or(|closed| closed < world.row.epoch);
                lanes.iter().all(opens)
            }),
            Property::always("lane 0 is never closed", |_, world: &World| {
                world.lanes[0].closed.is_none()
            }),
            Property::sometimes("a late publish is refused", |_, world: &World| {
                world.was_refused && world.row == NO_ROW
            }),
            Property::sometimes("lanes that settled take jobs again", |_, world: &World| {
                world.rows.len() > 3 && world.rows.contains(&NO_ROW) && world.lanes[1].jobs > 0
            }),
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
fn planted_mistakes_are_found() {
    for (planted, promise) in [
        (Planted::PublishIgnoresMarker, SERVED),
        (Planted::CloseIgnoresJobs, SERVED),
        (Planted::CloseKeepsOldEpoch, SERVED),
        (Planted::OpenIgnoresEpoch, SERVED),
        (Planted::SettleIgnoresEpoch, SERVED),
        (Planted::SetLowersUsed, SERVED),
        (Planted::SettleSkipsLane, SERVED),
        (Planted::SetKeepsEpoch, OPENS),
        (Planted::DeletedRowRestartsEpochs, OPENS),
    ] {
        let protocol = Protocol {
            sets: 4,
            jobs: 1,
            planted: Some(planted),
        };
        let checker = protocol
            .checker()
            .threads(THREADS)
            .finish_when(HasDiscoveries::AnyOf(BTreeSet::from([promise])))
            .spawn_bfs()
            .join();
        let way = checker.assert_any_discovery(promise).into_actions();
        println!("{planted:?} breaks {promise:?}: {way:?}");
    }
}
