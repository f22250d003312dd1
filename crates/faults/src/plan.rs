//! What a run does, drawn from its seed.

use std::time::Duration;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::fault::{Class, Fault};

/// How long a lease of a pump lasts, in ms: the default of the daemon.
pub const LEASE_MS: u64 = 3000;
const SECONDS_DEFAULT: u64 = 30;
/// Narrow ones, so that delays and leases of some seconds are far timers; rarely the default.
const SLOTS_MS: [u64; 5] = [500, 1000, 1000, 2000, 65_536];
const DISTANCE_MAX_MS: u64 = 3;
/// Of pumps, and of the servers of a cluster: audits go through the proxies of a cluster, too.
const NEAR_MAX_MS: u64 = 1;
/// One after the other, from the due time of a job to its delivery: a consumer that wants several jobs asks for them in twelve
/// queues, of which five may have eight lanes, with one call each.
const MESSAGES: u64 = 100;
/// Three primaries and their replicas.
const CLUSTER_SERVERS: usize = 6;
/// Without faults at the beginning, so that there is something to compare with.
const CALM_MS: u64 = 2000;

/// What keeps the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Deployment {
    /// One Redis that writes to disk before it answers: nothing that was acknowledged may be lost
    Always,
    /// One Redis that writes to disk once a second: what it acknowledged last may be lost with it
    EverySecond,
    /// A master with two replicas and three sentinels: what no replica has yet may be lost with the master
    Sentinels,
    /// Three primaries with a replica each, which write to disk before they answer: what no replica has yet may be lost
    /// with a primary that is replaced unasked
    Cluster,
}

impl Deployment {
    /// Its name, and what a publish waits for.
    #[must_use]
    pub fn name_with(self, is_replicated: bool) -> String {
        match is_replicated {
            true => format!("{}+replica:{}", self.name(), self.replicas()),
            false => self.name(),
        }
    }

    /// How many replicas a server has.
    #[must_use]
    pub const fn replicas(self) -> usize {
        match self {
            Self::Always | Self::EverySecond => 0,
            Self::Sentinels => 2,
            Self::Cluster => 1,
        }
    }

    /// Its name, as on the command line.
    #[must_use]
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

/// What is requested of runs; the rest is drawn.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// Only faults of these classes; of all if there is none.
    pub classes: Vec<Class>,
    /// How long faults are made, in seconds.
    pub seconds: Option<u64>,
    /// What keeps the jobs.
    pub deployment: Option<Deployment>,
    /// Whether a Redis with `WAITAOF` can be had.
    pub has_waitaof: bool,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// All chance comes from it.
    pub seed: u64,
    /// What keeps the jobs.
    pub deployment: Deployment,
    /// Whether a publish is acknowledged only when all replicas have its jobs.
    #[serde(default)]
    pub is_replicated: bool,
    /// Whether a publish is acknowledged only when the disk of its Redis has its jobs.
    #[serde(default)]
    pub is_synced: bool,
    /// The width of the slots of far timers, in ms.
    #[serde(default = "slot_ms_default")]
    pub slot_ms: u64,
    /// How far each daemon, or each server of a cluster, is from the others: ms in each direction. Nothing where there is
    /// no proxy.
    #[serde(default)]
    pub distances_ms: Vec<u64>,
    /// Whether there is a second Redis, so that the pool can move to it and back.
    #[serde(default)]
    pub has_second_redis: bool,
    /// How many APIs there are.
    pub apis: usize,
    /// How many pumps there are.
    pub pumps: usize,
    /// How many clients publish.
    pub producers: usize,
    /// How many clients consume, half of them badly.
    pub consumers: usize,
    /// One after the other.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Whether no job may be lost whose publish was acknowledged, whatever becomes of a server.
    #[must_use]
    pub const fn keeps_what_it_acknowledged(&self) -> bool {
        self.is_replicated || self.is_synced
    }

    /// What the daemons and servers of the run are like, in words.
    #[must_use]
    pub fn setup(&self) -> String {
        let mut text = self.deployment.name_with(self.is_replicated);
        if self.is_synced {
            text += "+fsync";
        }
        if self.has_second_redis {
            text += ", two pools";
        }
        text += &format!(", slots of {} ms", self.slot_ms);
        if !self.distances_ms.is_empty() {
            let distances: Vec<String> = self.distances_ms.iter().map(u64::to_string).collect();
            text += &format!(", {} ms away", distances.join("/"));
        }
        text
    }

    /// How much later a job may be because daemons and servers are not near each other, in µs: to wake a pump, to move the
    /// job, to wake a consumer's API and to reserve takes some messages, one after the other.
    pub(crate) fn distance_bound(&self) -> u64 {
        let longest_ms = self.distances_ms.iter().max().copied();
        longest_ms.unwrap_or_default() * 1000 * MESSAGES
    }

    /// How far the daemon or server of this number is from the others, in each direction.
    pub(crate) fn distance(&self, number: usize) -> Duration {
        let distance_ms = self.distances_ms.get(number).copied();
        Duration::from_millis(distance_ms.unwrap_or_default())
    }

    /// The run of this seed that is as wished.
    #[must_use]
    pub fn draw(seed: u64, wishes: &Wishes) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let drawn = match random.random_range(0..15) {
            0..=5 => Deployment::Always,
            6..=7 => Deployment::EverySecond,
            8..=9 => Deployment::Sentinels,
            _ => Deployment::Cluster,
        };
        let deployment = wishes
            .deployment
            .unwrap_or_else(|| fitting(drawn, &wishes.classes));
        let (apis, pumps) = (random.random_range(2..=3), random.random_range(2..=3));
        let seconds = wishes.seconds.unwrap_or(SECONDS_DEFAULT);
        let classes = classes_for(deployment, &wishes.classes);
        // A separate stream: faults are the same with and without these.
        let mut shape = StdRng::seed_from_u64(!seed);
        let is_one = deployment.replicas() == 0;
        let is_moving = is_one
            && (wishes.classes.contains(&Class::PoolMove)
                || (wishes.classes.is_empty() && shape.random_bool(0.25)));
        let classes = match is_moving {
            true => classes,
            false => without(classes, Class::PoolMove),
        };
        let faults = draw_faults(&mut random, &classes, seconds * 1000);
        Self {
            seed,
            deployment,
            is_replicated: deployment.replicas() > 0 && random.random_bool(0.5),
            is_synced: shape.random_bool(0.3) && is_one && wishes.has_waitaof,
            slot_ms: SLOTS_MS[shape.random_range(0..SLOTS_MS.len())],
            distances_ms: draw_distances(&mut shape, deployment, apis, pumps),
            has_second_redis: is_moving,
            apis,
            pumps,
            producers: 6,
            consumers: 30,
            faults,
        }
    }
}

/// What the histories of old runs do not say.
const fn slot_ms_default() -> u64 {
    65_536
}

fn without(mut classes: Vec<Class>, class: Class) -> Vec<Class> {
    classes.retain(|it| *it != class);
    classes
}

/// Half of the runs have everything near.
fn draw_distances(
    random: &mut StdRng,
    deployment: Deployment,
    apis: usize,
    pumps: usize,
) -> Vec<u64> {
    if deployment == Deployment::Sentinels || random.random_bool(0.5) {
        return Vec::new();
    }
    let longest_ms: Vec<u64> = match deployment {
        Deployment::Cluster => vec![NEAR_MAX_MS; CLUSTER_SERVERS],
        _ => [vec![DISTANCE_MAX_MS; apis], vec![NEAR_MAX_MS; pumps]].concat(),
    };
    let distances = longest_ms.into_iter();
    distances
        .map(|longest| random.random_range(0..=longest))
        .collect()
}

/// The deployment that was drawn, unless none of the classes can happen to it.
fn fitting(drawn: Deployment, classes: &[Class]) -> Deployment {
    let possible = |deployment| classes.is_empty() || !classes_for(deployment, classes).is_empty();
    let others = Deployment::value_variants().iter().copied();
    std::iter::once(drawn)
        .chain(others)
        .find(|it| possible(*it))
        .unwrap_or(drawn)
}

fn classes_for(deployment: Deployment, wished: &[Class]) -> Vec<Class> {
    let all = if wished.is_empty() {
        Class::value_variants()
    } else {
        wished
    };
    let possible = all.iter().filter(|class| class.can_happen_to(deployment));
    possible.copied().collect()
}

/// Each class comes once before one comes again.
fn draw_faults(random: &mut StdRng, classes: &[Class], time_ms: u64) -> Vec<Fault> {
    let (mut faults, mut left, mut at_ms) = (Vec::new(), Vec::new(), 0);
    while at_ms < time_ms && !classes.is_empty() {
        if left.is_empty() {
            left = classes.to_vec();
        }
        let class = left.swap_remove(random.random_range(0..left.len()));
        let mut fault = Fault::draw(random.random(), class);
        fault.after_ms += if at_ms == 0 { CALM_MS } else { 0 };
        at_ms += fault.after_ms + fault.length_ms;
        faults.push(fault);
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_plan() {
        let wishes = Wishes::default();
        assert_eq!(Plan::draw(7, &wishes), Plan::draw(7, &wishes));
        assert_ne!(Plan::draw(7, &wishes).faults, Plan::draw(8, &wishes).faults);
    }

    #[test]
    fn what_is_wished_is_drawn_and_nothing_else() {
        for seed in 0..50 {
            let wishes = |class| Wishes {
                classes: vec![class],
                ..Wishes::default()
            };
            for class in Class::value_variants() {
                let plan = Plan::draw(seed, &wishes(*class));
                assert!(!plan.faults.is_empty(), "{class:?}");
                assert!(plan.faults.iter().all(|fault| fault.class == *class));
                assert!(class.can_happen_to(plan.deployment), "{class:?}");
            }
        }
    }

    #[test]
    fn every_class_comes_in_some_plan() {
        let plans = (0..60).map(|seed| Plan::draw(seed, &Wishes::default()));
        let drawn: Vec<_> = plans
            .flat_map(|plan| plan.faults)
            .map(|it| it.class)
            .collect();
        for class in Class::value_variants() {
            assert!(drawn.contains(class), "{class:?}");
        }
    }
}
