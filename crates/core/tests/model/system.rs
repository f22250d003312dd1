//! Two pods, two pumps, a clock and a bucket, as a state machine for stateright.
//!
//! A call is one step: what happens between sending and carrying out, or between carrying out and
//! hearing, is covered by doing the step earlier or later, since nobody acts on what it has not heard. An
//! answer that is lost is a step that is not `heard`.

use stateright::{Model, Property};
use tidegate_core::State;

use crate::bucket::{Bucket, Number, Pump};
use crate::history::{Broken, History};
use crate::planted::Planted;
use crate::verbs::{Outcome, SWEEP_PAUSE_MS, Terms};

pub(crate) const PODS: usize = 2;
pub(crate) const PUMPS: usize = 2;
/// A moment that is behind everything.
const AFTER_ALL_MS: u64 = 1_000_000;
/// A pump that has more calls to make makes no progress.
const CALLS_MAX: usize = 100;

/// What is checked: a world small enough to see all of it.
#[derive(Debug, Clone)]
pub(crate) struct System {
    /// The jobs that are published, in this order; any of them may stay unpublished.
    pub(crate) jobs: Vec<Terms>,
    /// The leases that consumers ask for.
    pub(crate) ttrs_ms: Vec<u64>,
    /// The time to live of respawned jobs.
    pub(crate) respawn_ttl_ms: u64,
    /// Where the clock stops.
    pub(crate) last_ms: u64,
    /// Worlds with more far hints are not looked at.
    pub(crate) far_hints_max: usize,
    /// What the counts are wrong by from the beginning: delayed, ready, leased, dead.
    pub(crate) miscounted: [i32; 4],
    pub(crate) planted: Option<Planted>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    now_ms: u64,
    bucket: Bucket,
    history: History,
    /// The delivery that each pod holds.
    holds: [Option<Delivery>; PODS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Delivery {
    job: Number,
    attempt: u32,
    /// By a pod that will do so again.
    is_released: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    Publish {
        heard: bool,
    },
    Reserve {
        pod: usize,
        ttr_ms: u64,
        heard: bool,
    },
    Ack {
        pod: usize,
        by_attempt: bool,
        heard: bool,
    },
    Release {
        pod: usize,
    },
    /// The consumer, or the pod, is no more.
    Forget {
        pod: usize,
    },
    Cancel {
        job: Number,
    },
    Respawn,
    /// By a pump that sees no living holder. Any pump may at any time: the other one slept past its
    /// membership, or only seems to have. So no promise hangs on who leads.
    LeaseAcquire {
        pump: Pump,
    },
    LeaseRelease {
        pump: Pump,
    },
    LoadSlot {
        pump: Pump,
    },
    MoveDue {
        pump: Pump,
    },
    Sweep {
        pump: Pump,
    },
}

impl Model for System {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now_ms: 0,
            bucket: Bucket::new(self.planted, self.miscounted),
            history: History::default(),
            holds: [None; PODS],
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.now_ms < self.last_ms {
            actions.push(Action::Tick);
        }
        for heard in [true, false] {
            if world.history.jobs.len() < self.jobs.len() {
                actions.push(Action::Publish { heard });
            }
            (0..PODS).for_each(|pod| self.actions_of_pod(world, pod, heard, actions));
        }
        let known = world.history.jobs.iter().enumerate();
        let known = known.filter(|(_, job)| job.is_known);
        actions.extend(known.map(|(job, _)| Action::Cancel { job }));
        if !world.bucket.dead.is_empty() {
            actions.push(Action::Respawn);
        }
        (0..PUMPS).for_each(|pump| actions.extend(actions_of_pump(pump)));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.step(self, &action);
        // Nothing depends on which pod is which.
        next.holds.sort_unstable();
        (next != *world).then_some(next)
    }

    /// A job that is reserved and released over and over leaves a far hint each time.
    fn within_boundary(&self, world: &World) -> bool {
        world.bucket.far.values().flatten().count() <= self.far_hints_max
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("nothing is lost", |_: &Self, world: &World| {
                world.has_all_jobs()
            }),
            Property::always(
                "something leads to every job in time",
                |_, world: &World| {
                    let mut records = world.bucket.records.iter().enumerate();
                    records.all(|(number, life)| {
                        life.is_none_or(|life| world.bucket.is_found(number, life))
                    })
                },
            ),
            Property::always("the sweep knows what expires", |_, world: &World| {
                world.sweep_knows()
            }),
            Property::always(
                "counts are those of the records",
                |system: &Self, world: &World| {
                    let real = world.bucket.counted().into_iter().zip(system.miscounted);
                    world
                        .bucket
                        .counts
                        .into_iter()
                        .eq(real.map(|(real, wrong)| real + wrong))
                },
            ),
            Property::always("pumps bring every job home", |_, world: &World| {
                world.comes_home()
            }),
            Property::sometimes("a job is delivered twice", |_, world: &World| {
                world.history.deliveries() >= 2
            }),
            Property::sometimes("a job dies", |_, world: &World| {
                !world.bucket.dead.is_empty()
            }),
            Property::sometimes("two pods hold one job", |_, world: &World| {
                world.is_held_twice()
            }),
        ];
        properties.extend(PROMISES.map(|(name, kept)| Property::always(name, kept)));
        properties
    }
}

type Kept = fn(&System, &World) -> bool;

const PROMISES: [(&str, Kept); 7] = [
    ("never early", |_, world| world.keeps(Broken::Early)),
    ("never after the time to live", |_, world| {
        world.keeps(Broken::Expired)
    }),
    ("never after ack or cancel", |_, world| {
        world.keeps(Broken::AfterItsEnd)
    }),
    ("one lease at a time", |_, world| {
        world.keeps(Broken::SecondLease)
    }),
    ("no more deliveries than tries", |_, world| {
        world.keeps(Broken::TooOften)
    }),
    ("dead only without tries", |_, world| {
        world.keeps(Broken::BuriedAlive)
    }),
    ("ended only by the delivery that holds it", |_, world| {
        world.keeps(Broken::EndedByLoser)
    }),
];

impl System {
    fn actions_of_pod(&self, world: &World, pod: usize, heard: bool, actions: &mut Vec<Action>) {
        if world.holds[pod].is_none() {
            let reserves = self.ttrs_ms.iter();
            actions.extend(reserves.map(|ttr_ms| Action::Reserve {
                pod,
                ttr_ms: *ttr_ms,
                heard,
            }));
            return;
        }
        for by_attempt in [true, false] {
            actions.push(Action::Ack {
                pod,
                by_attempt,
                heard,
            });
        }
        if heard {
            actions.extend([Action::Release { pod }, Action::Forget { pod }]);
        }
    }
}

/// A pump calls whenever it likes: one that slept past its lock does not know that.
const fn actions_of_pump(pump: Pump) -> [Action; 5] {
    [
        Action::LeaseAcquire { pump },
        Action::LeaseRelease { pump },
        Action::LoadSlot { pump },
        Action::MoveDue { pump },
        Action::Sweep { pump },
    ]
}

impl World {
    fn step(&mut self, system: &System, action: &Action) {
        let now_ms = self.now_ms;
        match *action {
            Action::Tick => self.now_ms += 1,
            Action::Publish { heard } => {
                let terms = system.jobs[self.history.jobs.len()];
                self.bucket.publish(terms, now_ms);
                self.history.published(terms, now_ms, heard);
            }
            Action::Reserve { pod, ttr_ms, heard } => {
                if let Some((job, attempt)) = self.bucket.reserve(ttr_ms, now_ms) {
                    self.history.delivered(job, ttr_ms, now_ms);
                    let is_released = false;
                    self.holds[pod] = heard.then_some(Delivery {
                        job,
                        attempt,
                        is_released,
                    });
                }
            }
            Action::Ack {
                pod,
                by_attempt,
                heard,
            } => self.ack(pod, by_attempt, heard),
            Action::Release { pod } => self.release(pod),
            Action::Forget { pod } => self.holds[pod] = None,
            Action::Cancel { job } => {
                if self.bucket.cancel(job, now_ms) == Outcome::Done {
                    self.history.ended(job, None);
                }
            }
            Action::Respawn => {
                let ttl_ms = system.respawn_ttl_ms;
                if let Some(job) = self.bucket.respawn(ttl_ms, now_ms) {
                    self.history.respawned(job, ttl_ms, now_ms);
                }
            }
            Action::LeaseAcquire { pump } => self.bucket.lock = Some(pump),
            Action::LeaseRelease { pump } => self.bucket.lease_release(pump),
            Action::LoadSlot { pump } => drop(self.bucket.load_slot(pump, now_ms)),
            Action::MoveDue { pump } => self.move_due(pump),
            Action::Sweep { pump } => drop(self.bucket.sweep(pump, now_ms)),
        }
    }

    fn ack(&mut self, pod: usize, by_attempt: bool, heard: bool) {
        let Some(Delivery { job, attempt, .. }) = self.holds[pod] else {
            return;
        };
        let attempt = by_attempt.then_some(attempt);
        if self.bucket.ack(job, attempt, self.now_ms) == Outcome::Done {
            self.history.ended(job, attempt);
        }
        if heard {
            self.holds[pod] = None;
        }
    }

    /// Whatever the answer, and whether it is heard or not: the pod sends it once. The next delivery has
    /// the same attempt, so that a second one would take it from its consumer.
    fn release(&mut self, pod: usize) {
        let Some(held) = self.holds[pod] else {
            return;
        };
        let outcome = self.bucket.release(held.job, held.attempt, self.now_ms);
        if outcome == Outcome::Done && !held.is_released {
            self.history.released(held.job);
        }
        let is_released = true;
        let repeats = self.bucket.has(Planted::PodRepeatsRelease);
        self.holds[pod] = repeats.then_some(Delivery {
            is_released,
            ..held
        });
    }

    fn move_due(&mut self, pump: Pump) {
        let before = self.bucket.records.clone();
        self.bucket.move_due(pump, self.now_ms);
        for (number, before) in before.iter().enumerate() {
            let after = self.bucket.hinted(number, State::Dead);
            if after.is_some() && before.is_some_and(|life| life.state != State::Dead) {
                self.history.died(number, self.now_ms);
            }
        }
    }

    fn keeps(&self, promise: Broken) -> bool {
        self.history.broken != Some(promise)
    }

    fn has_all_jobs(&self) -> bool {
        let mut numbers = 0..self.history.jobs.len();
        numbers.all(|number| {
            !self.history.must_be_there(number, self.now_ms)
                || self.bucket.find(number, self.now_ms).is_some()
        })
    }

    /// One of them does not know yet that its lease is over.
    fn is_held_twice(&self) -> bool {
        let jobs = self.holds.map(|held| held.map(|held| held.job));
        jobs[0].is_some() && jobs[0] == jobs[1]
    }

    fn sweep_knows(&self) -> bool {
        let expires = self.bucket.records.iter().flatten();
        let mut expires = expires.filter(|life| life.expires_at_ms > 0);
        expires.all(|life| {
            let latest = life.expires_at_ms.max(self.now_ms + SWEEP_PAUSE_MS);
            self.bucket.expiry.is_some_and(|at_ms| at_ms <= latest)
        })
    }

    /// Whether a pump that goes on alone leaves no job waiting and no expired one behind.
    fn comes_home(&self) -> bool {
        let mut bucket = self.bucket.clone();
        bucket.lock = Some(0);
        let works = |bucket: &mut Bucket| {
            bucket.load_slot(0, AFTER_ALL_MS)
                || bucket.move_due(0, AFTER_ALL_MS)
                || bucket.sweep(0, AFTER_ALL_MS)
        };
        if (0..CALLS_MAX).all(|_| works(&mut bucket)) {
            return false;
        }
        bucket.records.iter().flatten().all(|life| {
            matches!(life.state, State::Ready | State::Dead) && !life.expired(AFTER_ALL_MS)
        })
    }
}
