//! The plan of a run, drawn from its seed.

use std::time::Duration;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::deployment::Deployment;
use crate::fault::{Class, PlannedFault};

const SECONDS_DEFAULT: u64 = 30;
/// Widths of far slots. Mostly narrow, so that delays and leases of some seconds are far timers; rarely the default.
const SLOTS_MS: [u64; 5] = [500, 1000, 1000, 2000, 65_536];
const DISTANCE_MAX_MS: u64 = 3;
/// For pumps, and for the servers of a cluster, whose proxies audits use too.
const NEAR_MAX_MS: u64 = 1;
/// Sequential messages from the due time of a job to its delivery: a consumer that wants several jobs reserves from
/// twelve queues, of which five may have eight lanes, with one call each.
const MESSAGES: u64 = 100;
/// Three primaries and their replicas.
const CLUSTER_SERVERS: usize = 6;
/// Time without faults at the begin of a run, for comparison.
const CALM_MS: u64 = 2000;

/// Requested properties of runs; the rest is drawn.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// Only faults of these classes; empty = all.
    pub classes: Vec<Class>,
    /// How long faults are injected, in seconds.
    pub seconds: Option<u64>,
    /// The deployment.
    pub deployment: Option<Deployment>,
    /// Whether a server with `WAITAOF` is available.
    pub has_waitaof: bool,
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of all random choices.
    pub seed: u64,
    /// The deployment.
    pub deployment: Deployment,
    /// Whether a publish waits for all replicas.
    pub is_replicated: bool,
    /// Whether a publish waits for the disk of its Redis.
    pub is_synced: bool,
    /// The width of the slots of far timers, in ms.
    pub slot_ms: u64,
    /// Added latency of each daemon, or of each server of a cluster, in ms per direction. Empty = none.
    pub latencies_ms: Vec<u64>,
    /// Whether there is a second Redis, to which the pool moves and back.
    pub has_second_redis: bool,
    /// Number of APIs.
    pub apis: usize,
    /// Number of pumps.
    pub pumps: usize,
    /// Number of producers.
    pub producers: usize,
    /// Number of consumers; a third of them hang up at times.
    pub consumers: usize,
    /// The faults, in order.
    pub faults: Vec<PlannedFault>,
}

impl Plan {
    /// Whether no job with an acknowledged publish may be lost, even if a server fails.
    #[must_use]
    pub const fn is_durable(&self) -> bool {
        self.is_replicated || self.is_synced
    }

    /// Describes the daemons and servers of the run.
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
        if !self.latencies_ms.is_empty() {
            let distances: Vec<String> = self.latencies_ms.iter().map(u64::to_string).collect();
            text += &format!(", latency {} ms", distances.join("/"));
        }
        text
    }

    /// Additional allowed lateness because of the latency between daemons and servers, in µs: a delivery needs
    /// sequential messages to wake a pump, move the job, wake the consumer's API, and reserve.
    pub(crate) fn latency_bound(&self) -> u64 {
        let longest_ms = self.latencies_ms.iter().max().copied();
        longest_ms.unwrap_or_default() * 1000 * MESSAGES
    }

    /// Returns the added latency of the daemon or server with this number, per direction.
    pub(crate) fn latency(&self, number: usize) -> Duration {
        let distance_ms = self.latencies_ms.get(number).copied();
        Duration::from_millis(distance_ms.unwrap_or_default())
    }

    /// Draws the plan of a seed with the requested properties.
    #[must_use]
    pub fn draw(seed: u64, options: &PlanOptions) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let drawn = match random.random_range(0..15) {
            0..=5 => Deployment::Always,
            6..=7 => Deployment::EverySecond,
            8..=9 => Deployment::Sentinels,
            _ => Deployment::Cluster,
        };
        let deployment = options
            .deployment
            .unwrap_or_else(|| applicable_deployment(drawn, &options.classes));
        let (apis, pumps) = (random.random_range(2..=3), random.random_range(2..=3));
        let seconds = options.seconds.unwrap_or(SECONDS_DEFAULT);
        let classes = classes_for(deployment, &options.classes);
        // A separate random stream, so that these choices do not change the faults.
        let mut shape = StdRng::seed_from_u64(!seed);
        let is_one = deployment.replicas() == 0;
        let is_moving = is_one
            && (options.classes.contains(&Class::PoolMove)
                || (options.classes.is_empty() && shape.random_bool(0.25)));
        let classes = match is_moving {
            true => classes,
            false => without(classes, Class::PoolMove),
        };
        let faults = draw_faults(&mut random, &classes, seconds * 1000);
        // Writes on the disk of the old server are lost as well.
        let switches = faults.iter().any(|it| it.class == Class::EndpointSwitch);
        Self {
            seed,
            deployment,
            is_replicated: deployment.replicas() > 0 && random.random_bool(0.5),
            is_synced: shape.random_bool(0.3) && is_one && options.has_waitaof && !switches,
            slot_ms: SLOTS_MS[shape.random_range(0..SLOTS_MS.len())],
            latencies_ms: draw_latencies(&mut shape, deployment, apis, pumps),
            has_second_redis: is_moving,
            apis,
            pumps,
            producers: 3,
            consumers: 24,
            faults,
        }
    }
}

fn without(mut classes: Vec<Class>, class: Class) -> Vec<Class> {
    classes.retain(|it| *it != class);
    classes
}

/// Half of the runs have no added latency.
fn draw_latencies(
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

/// Returns the drawn deployment, or another one if none of the classes applies to it.
fn applicable_deployment(drawn: Deployment, classes: &[Class]) -> Deployment {
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
    let possible = all.iter().filter(|class| class.applies_to(deployment));
    possible.copied().collect()
}

/// Draws the faults. Each class occurs once before any is repeated.
fn draw_faults(random: &mut StdRng, classes: &[Class], time_ms: u64) -> Vec<PlannedFault> {
    let (mut faults, mut left, mut at_ms) = (Vec::new(), Vec::new(), 0);
    while at_ms < time_ms && !classes.is_empty() {
        if left.is_empty() {
            left = classes.to_vec();
        }
        let class = left.swap_remove(random.random_range(0..left.len()));
        let mut fault = PlannedFault::draw(random.random(), class);
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
    fn a_seed_determines_the_plan() {
        let options = PlanOptions::default();
        assert_eq!(Plan::draw(7, &options), Plan::draw(7, &options));
        assert_ne!(
            Plan::draw(7, &options).faults,
            Plan::draw(8, &options).faults
        );
    }

    #[test]
    fn only_requested_classes_are_drawn() {
        for seed in 0..50 {
            let options = |class| PlanOptions {
                classes: vec![class],
                ..PlanOptions::default()
            };
            for class in Class::value_variants() {
                let plan = Plan::draw(seed, &options(*class));
                assert!(!plan.faults.is_empty(), "{class:?}");
                assert!(plan.faults.iter().all(|fault| fault.class == *class));
                assert!(class.applies_to(plan.deployment), "{class:?}");
            }
        }
    }

    #[test]
    fn every_class_occurs_in_some_plan() {
        let plans = (0..200).map(|seed| Plan::draw(seed, &PlanOptions::default()));
        let drawn: Vec<_> = plans
            .flat_map(|plan| plan.faults)
            .map(|it| it.class)
            .collect();
        for class in Class::value_variants() {
            assert!(drawn.contains(class), "{class:?}");
        }
    }
}
