//! Model of the lifecycle and of the hints, checked in every reachable state of a small system: two API pods and two
//! pumps, lost replies, pumps that continue after they lost their lock, jobs that expire, cancels that race with
//! `move_due`, in any order.
//!
//! Each script is modelled as one step on records and hints (`docs/redis-layout.md`, Rules). The state of a job after a
//! step comes from [`tidegate_core::lifecycle`]. `tests/tests/store` checks that the scripts do the same. Why this
//! checker: `docs/decisions/0011-models-and-mutants.md`.

#![allow(
    clippy::print_stdout,
    reason = "shows the number of states, and the paths to planted defects"
)]

mod bucket;
mod groups;
mod history;
mod key_lanes;
mod lanes;
mod lines;
mod planted;
mod system;
mod verbs;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

use planted::PlantedDefect;
use system::System;
use verbs::ModelPublish;

const THREADS: usize = 2;

const fn publish(delay_ms: u64, ttl_ms: u64, tries: u16) -> ModelPublish {
    ModelPublish {
        delay_ms,
        ttl_ms,
        tries,
    }
}

/// One job with far and near timers and two tries, respawned with a time to live.
fn one_job() -> System {
    System {
        jobs: vec![publish(4, 0, 2)],
        ttrs_ms: vec![1, 4],
        respawn_ttl_ms: 2,
        last_ms: 9,
        far_hints_max: 2,
        attempts_max: 4,
        repeats_releases: true,
        miscounted: [0; 5],
        planted: None,
    }
}

/// Two jobs in one queue; the first expires.
fn two_jobs() -> System {
    System {
        jobs: vec![publish(1, 3, 1), publish(0, 5, 2)],
        ttrs_ms: vec![2],
        respawn_ttl_ms: 0,
        last_ms: 6,
        far_hints_max: 2,
        attempts_max: 2,
        repeats_releases: false,
        miscounted: [0; 5],
        planted: None,
    }
}

/// A job that expires while its timer is far, and a job that is consumed at the same time.
fn far_and_near() -> System {
    System {
        jobs: vec![publish(4, 6, 1), publish(0, 0, 1)],
        ttrs_ms: vec![1],
        respawn_ttl_ms: 1,
        last_ms: 6,
        far_hints_max: 2,
        attempts_max: 2,
        repeats_releases: false,
        miscounted: [0; 5],
        planted: None,
    }
}

/// A job whose hint passes through both levels of far slots.
fn two_levels() -> System {
    System {
        jobs: vec![publish(9, 0, 2)],
        ttrs_ms: vec![1, 9],
        respawn_ttl_ms: 0,
        last_ms: 11,
        far_hints_max: 2,
        attempts_max: 4,
        repeats_releases: true,
        miscounted: [0; 5],
        planted: None,
    }
}

/// Counts that are too low: they fall to 0 too early, and below 0.
fn damaged_counts() -> System {
    System {
        miscounted: [-1; 5],
        last_ms: 4,
        ..two_jobs()
    }
}

#[track_caller]
fn upholds_all_guarantees(name: &str, system: System) {
    let checker = system.checker().threads(THREADS).spawn_bfs().join();
    println!(
        "{name}: {} states, depth {}",
        checker.unique_state_count(),
        checker.max_depth()
    );
    checker.assert_properties();
}

#[test]
fn one_job_keeps_all_promises() {
    upholds_all_guarantees("one job", one_job());
}

#[test]
fn two_jobs_keep_all_promises() {
    upholds_all_guarantees("two jobs", two_jobs());
}

#[test]
fn far_and_near_jobs_keep_all_promises() {
    upholds_all_guarantees("far and near", far_and_near());
}

#[test]
fn jobs_in_two_levels_of_far_slots_keep_all_promises() {
    upholds_all_guarantees("two levels", two_levels());
}

#[test]
fn jobs_with_damaged_counts_keep_all_promises() {
    upholds_all_guarantees("damaged counts", damaged_counts());
}

/// Asserts that the checker finds a path on which this defect of a model violates the property.
#[track_caller]
fn finds_violation<M>(planted: impl Debug, model: M, promise: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let found = HasDiscoveries::AnyOf(BTreeSet::from([promise]));
    let checker = model
        .checker()
        .threads(THREADS)
        .finish_when(found)
        .spawn_bfs()
        .join();
    let way = checker.assert_any_discovery(promise).into_actions();
    println!("{planted:?} breaks {promise:?}: {way:?}");
}

/// Asserts that the checker finds a path on which the planted defect violates the property.
#[track_caller]
fn finds(planted: PlantedDefect, system: System, promise: &'static str) {
    let system = System {
        planted: Some(planted),
        ..system
    };
    finds_violation(planted, system, promise);
}

#[test]
fn planted_defects_are_found() {
    finds(
        PlantedDefect::HintsAreTrusted,
        one_job(),
        "one lease at a time",
    );
    finds(
        PlantedDefect::ReserveTrustsHint,
        two_jobs(),
        "never after ack or cancel",
    );
    finds(
        PlantedDefect::ReserveIgnoresExpiry,
        two_jobs(),
        "never after the time to live",
    );
    finds(
        PlantedDefect::LoadSetsBackTimers,
        one_job(),
        "a hint leads to every job in time",
    );
    finds(
        PlantedDefect::DeleteLeavesRecord,
        one_job(),
        "counts are those of the records",
    );
    finds(
        PlantedDefect::DeleteLeavesRecord,
        one_job(),
        "never after ack or cancel",
    );
    finds(
        PlantedDefect::SweepForgetsChunk,
        two_jobs(),
        "the sweep knows what expires",
    );
    finds(
        PlantedDefect::SweepForgetsChunk,
        two_jobs(),
        "pumps leave every job ready or dead",
    );
    finds(
        PlantedDefect::PublishSetsNoTimer,
        one_job(),
        "pumps leave every job ready or dead",
    );
    finds(
        PlantedDefect::AckIgnoresAttempt,
        one_job(),
        "ended only by the delivery that holds it",
    );
    finds(
        PlantedDefect::CountDeletesList,
        damaged_counts(),
        "a hint leads to every job in time",
    );
    finds(
        PlantedDefect::ReleaseReusesAttempt,
        one_job(),
        "one lease at a time",
    );
}
