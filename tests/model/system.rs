//! Two pods, two pumps, a clock and a bucket, as a state machine for stateright.
//!
//! A call is one step. The delays before its execution and before its reply are covered by executing the step earlier
//! or later, since no process acts on a reply that it has not received. A step that is not `is_answered` is a call
//! whose reply is lost.

use stateright::{Model, Property};
use tidegate_core::JobState;

use crate::bucket::{ModelBucket, Number, Pump};
use crate::history::{ModelHistory, Violation};
use crate::planted::PlantedDefect;
use crate::verbs::{ModelPublish, SWEEP_PAUSE_MS, VerbOutcome};

pub(crate) const PODS: usize = 2;
pub(crate) const PUMPS: usize = 2;
/// A time after all others.
const AFTER_ALL_MS: u64 = 1_000_000;
/// A pump that needs more calls than this makes no progress.
const CALLS_MAX: usize = 100;

/// The checked system: small enough to visit all of its states.
#[derive(Debug, Clone)]
pub(crate) struct System {
    /// The jobs that are published, in this order; any of them may stay unpublished.
    pub(crate) jobs: Vec<ModelPublish>,
    /// The lease lengths that consumers request, in ms.
    pub(crate) ttrs_ms: Vec<u64>,
    /// The time to live of respawned jobs.
    pub(crate) respawn_ttl_ms: u64,
    /// The last time of the clock.
    pub(crate) last_ms: u64,
    /// States with more far hints are not visited.
    pub(crate) far_hints_max: usize,
    /// States with more deliveries of a job are not visited: releases give tries back.
    pub(crate) attempts_max: u32,
    /// Whether a pod may repeat a release, as if the reply were lost.
    pub(crate) repeats_releases: bool,
    /// The initial error of the counts: delayed, ready, leased, dead.
    pub(crate) miscounted: [i32; 5],
    pub(crate) planted: Option<PlantedDefect>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ModelState {
    now_ms: u64,
    bucket: ModelBucket,
    history: ModelHistory,
    /// The delivery that each pod holds, if any.
    holds: [Option<HeldDelivery>; PODS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct HeldDelivery {
    job: Number,
    attempt: u32,
    /// The pod has released it, and may release it again: the reply may be lost.
    is_released: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModelAction {
    Tick,
    Publish {
        is_answered: bool,
    },
    Reserve {
        pod: usize,
        ttr_ms: u64,
        is_answered: bool,
    },
    Ack {
        pod: usize,
        by_attempt: bool,
        is_answered: bool,
    },
    Release {
        pod: usize,
    },
    /// The consumer or the pod has crashed.
    Forget {
        pod: usize,
    },
    Cancel {
        job: Number,
    },
    Respawn,
    /// By a pump that sees no live holder. Any pump may take the lock at any time: the membership of the other one has
    /// expired, or only seems to have. So no guarantee depends on the lock.
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
    type State = ModelState;
    type Action = ModelAction;

    fn init_states(&self) -> Vec<ModelState> {
        vec![ModelState {
            now_ms: 0,
            bucket: ModelBucket::new(self.planted, self.miscounted),
            history: ModelHistory::default(),
            holds: [None; PODS],
        }]
    }

    fn actions(&self, world: &ModelState, actions: &mut Vec<ModelAction>) {
        if world.now_ms < self.last_ms {
            actions.push(ModelAction::Tick);
        }
        for is_answered in [true, false] {
            if world.history.jobs.len() < self.jobs.len() {
                actions.push(ModelAction::Publish { is_answered });
            }
            (0..PODS).for_each(|pod| self.actions_of_pod(world, pod, is_answered, actions));
        }
        let known = world.history.jobs.iter().enumerate();
        let known = known.filter(|(_, job)| job.is_known);
        actions.extend(known.map(|(job, _)| ModelAction::Cancel { job }));
        if !world.bucket.dead.is_empty() {
            actions.push(ModelAction::Respawn);
        }
        (0..PUMPS).for_each(|pump| actions.extend(actions_of_pump(pump)));
    }

    fn next_state(&self, world: &ModelState, action: ModelAction) -> Option<ModelState> {
        let mut next = world.clone();
        next.step(self, &action);
        // Pods are interchangeable.
        next.holds.sort_unstable();
        (next != *world).then_some(next)
    }

    /// Each reserve with a release afterwards leaves a far hint, so their number must be bounded.
    fn within_boundary(&self, world: &ModelState) -> bool {
        let attempts = world
            .bucket
            .records
            .iter()
            .flatten()
            .map(|life| life.attempt);
        world.bucket.far.values().flatten().count() <= self.far_hints_max
            && attempts.max().unwrap_or_default() <= self.attempts_max
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("nothing is lost", |_: &Self, world: &ModelState| {
                world.has_all_jobs()
            }),
            Property::always(
                "a hint leads to every job in time",
                |_, world: &ModelState| {
                    let mut records = world.bucket.records.iter().enumerate();
                    records.all(|(number, life)| {
                        life.is_none_or(|life| world.bucket.is_found(number, life))
                    })
                },
            ),
            Property::always("the sweep knows what expires", |_, world: &ModelState| {
                world.sweep_knows()
            }),
            Property::always(
                "counts are those of the records",
                |system: &Self, world: &ModelState| {
                    let real = world.bucket.counted().into_iter().zip(system.miscounted);
                    world
                        .bucket
                        .counts
                        .into_iter()
                        .eq(real.map(|(real, wrong)| real + wrong))
                },
            ),
            Property::always(
                "pumps leave every job ready or dead",
                |_, world: &ModelState| world.comes_home(),
            ),
            Property::sometimes("a job is delivered twice", |_, world: &ModelState| {
                world.history.deliveries() >= 2
            }),
            Property::sometimes("a job dies", |_, world: &ModelState| {
                !world.bucket.dead.is_empty()
            }),
            Property::sometimes("two pods hold one job", |_, world: &ModelState| {
                world.is_held_twice()
            }),
        ];
        properties.extend(PROMISES.map(|(name, kept)| Property::always(name, kept)));
        properties
    }
}

type GuaranteeCheck = fn(&System, &ModelState) -> bool;

const PROMISES: [(&str, GuaranteeCheck); 7] = [
    ("never early", |_, world| world.keeps(Violation::Early)),
    ("never after the time to live", |_, world| {
        world.keeps(Violation::Expired)
    }),
    ("never after ack or cancel", |_, world| {
        world.keeps(Violation::AfterItsEnd)
    }),
    ("one lease at a time", |_, world| {
        world.keeps(Violation::SecondLease)
    }),
    ("no more deliveries than tries", |_, world| {
        world.keeps(Violation::TooOften)
    }),
    ("dead only without tries", |_, world| {
        world.keeps(Violation::BuriedAlive)
    }),
    ("ended only by the delivery that holds it", |_, world| {
        world.keeps(Violation::EndedByLoser)
    }),
];

impl System {
    fn actions_of_pod(
        &self,
        world: &ModelState,
        pod: usize,
        is_answered: bool,
        actions: &mut Vec<ModelAction>,
    ) {
        if world.holds[pod].is_none() {
            let reserves = self.ttrs_ms.iter();
            actions.extend(reserves.map(|ttr_ms| ModelAction::Reserve {
                pod,
                ttr_ms: *ttr_ms,
                is_answered,
            }));
            return;
        }
        if world.holds[pod].is_some_and(|held| !held.is_released) {
            let acks = [true, false].map(|by_attempt| ModelAction::Ack {
                pod,
                by_attempt,
                is_answered,
            });
            actions.extend(acks);
        }
        if is_answered {
            actions.extend([ModelAction::Release { pod }, ModelAction::Forget { pod }]);
        }
    }
}

/// A pump may call at any time: it does not know when it has lost its lock.
const fn actions_of_pump(pump: Pump) -> [ModelAction; 5] {
    [
        ModelAction::LeaseAcquire { pump },
        ModelAction::LeaseRelease { pump },
        ModelAction::LoadSlot { pump },
        ModelAction::MoveDue { pump },
        ModelAction::Sweep { pump },
    ]
}

impl ModelState {
    fn step(&mut self, system: &System, action: &ModelAction) {
        let now_ms = self.now_ms;
        match *action {
            ModelAction::Tick => self.now_ms += 1,
            ModelAction::Publish { is_answered } => {
                let publish = system.jobs[self.history.jobs.len()];
                self.bucket.publish(publish, now_ms);
                self.history.published(publish, now_ms, is_answered);
            }
            ModelAction::Reserve {
                pod,
                ttr_ms,
                is_answered,
            } => {
                if let Some((job, attempt)) = self.bucket.reserve(ttr_ms, now_ms) {
                    self.history.delivered(job, ttr_ms, now_ms);
                    let is_released = false;
                    self.holds[pod] = is_answered.then_some(HeldDelivery {
                        job,
                        attempt,
                        is_released,
                    });
                }
            }
            ModelAction::Ack {
                pod,
                by_attempt,
                is_answered,
            } => self.ack(pod, by_attempt, is_answered),
            ModelAction::Release { pod } => self.release(system, pod),
            ModelAction::Forget { pod } => self.holds[pod] = None,
            ModelAction::Cancel { job } => {
                if self.bucket.cancel(job, now_ms) == VerbOutcome::Done {
                    self.history.ended(job, None);
                }
            }
            ModelAction::Respawn => {
                let ttl_ms = system.respawn_ttl_ms;
                if let Some(job) = self.bucket.respawn(ttl_ms, now_ms) {
                    self.history.respawned(job, ttl_ms, now_ms);
                }
            }
            ModelAction::LeaseAcquire { pump } => self.bucket.lock = Some(pump),
            ModelAction::LeaseRelease { pump } => self.bucket.lease_release(pump),
            ModelAction::LoadSlot { pump } => drop(self.bucket.load_slot(pump, now_ms)),
            ModelAction::MoveDue { pump } => self.move_due(pump),
            ModelAction::Sweep { pump } => drop(self.bucket.sweep(pump, now_ms)),
        }
    }

    fn ack(&mut self, pod: usize, by_attempt: bool, is_answered: bool) {
        let Some(HeldDelivery { job, attempt, .. }) = self.holds[pod] else {
            return;
        };
        let attempt = by_attempt.then_some(attempt);
        if self.bucket.ack(job, attempt, self.now_ms) == VerbOutcome::Done {
            self.history.ended(job, attempt);
        }
        if is_answered {
            self.holds[pod] = None;
        }
    }

    /// The next delivery has another attempt, so it is not taken from its consumer.
    fn release(&mut self, system: &System, pod: usize) {
        let Some(held) = self.holds[pod] else {
            return;
        };
        let outcome = self.bucket.release(held.job, held.attempt, self.now_ms);
        if outcome == VerbOutcome::Done && !held.is_released {
            self.history.released(held.job);
        }
        self.holds[pod] = system.repeats_releases.then_some(HeldDelivery {
            is_released: true,
            ..held
        });
    }

    fn move_due(&mut self, pump: Pump) {
        let before = self.bucket.records.clone();
        self.bucket.move_due(pump, self.now_ms);
        for (number, before) in before.iter().enumerate() {
            let after = self.bucket.hinted(number, JobState::Dead);
            if after.is_some() && before.is_some_and(|life| life.state != JobState::Dead) {
                self.history.died(number, self.now_ms);
            }
        }
    }

    fn keeps(&self, promise: Violation) -> bool {
        self.history.broken != Some(promise)
    }

    fn has_all_jobs(&self) -> bool {
        let mut numbers = 0..self.history.jobs.len();
        numbers.all(|number| {
            !self.history.must_be_there(number, self.now_ms)
                || self.bucket.find(number, self.now_ms).is_some()
        })
    }

    /// Two pods hold one job: the first one does not know yet that its lease has expired.
    fn is_held_twice(&self) -> bool {
        let held = self.holds.map(|held| held.filter(|held| !held.is_released));
        let jobs = held.map(|held| held.map(|held| held.job));
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

    /// Whether one pump alone makes all jobs ready or dead, and deletes all expired ones.
    fn comes_home(&self) -> bool {
        let mut bucket = self.bucket.clone();
        bucket.lock = Some(0);
        let works = |bucket: &mut ModelBucket| {
            bucket.load_slot(0, AFTER_ALL_MS)
                || bucket.move_due(0, AFTER_ALL_MS)
                || bucket.sweep(0, AFTER_ALL_MS)
        };
        if (0..CALLS_MAX).all(|_| works(&mut bucket)) {
            return false;
        }
        bucket.records.iter().flatten().all(|life| {
            matches!(life.state, JobState::Ready | JobState::Dead) && !life.expired(AFTER_ALL_MS)
        })
    }
}
