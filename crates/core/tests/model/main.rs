//! The lifecycle and the rules of the hints, checked in every state that a small world can come to:
//! two pods and two pumps, answers that are lost, pumps that sleep past their lock, jobs that expire,
//! cancels that race with the move, in any order.
//!
//! Scripts are modelled as one step each on records and hints (`docs/redis-layout.md`, Rules); what
//! becomes of a job is decided by the real [`tidegate_core::lifecycle`]. That the real scripts do the
//! same is tried by `tests/tests/store`. Why this checker: `docs/decisions/0011-model-checker.md`.

#![allow(
    clippy::print_stdout,
    reason = "how many states were seen, and how mistakes were found"
)]

mod bucket;
mod history;
mod planted;
mod system;
mod verbs;

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

use planted::Planted;
use system::System;
use verbs::Terms;

const THREADS: usize = 2;

const fn terms(delay_ms: u64, ttl_ms: u64, tries: u16) -> Terms {
    Terms {
        delay_ms,
        ttl_ms,
        tries,
    }
}

/// One job with timers far and near, two tries, respawned with a time to live.
fn one_job() -> System {
    System {
        jobs: vec![terms(4, 0, 2)],
        ttrs_ms: vec![1, 4],
        respawn_ttl_ms: 2,
        last_ms: 9,
        far_hints_max: 2,
        miscounted: [0; 4],
        planted: None,
    }
}

/// Two jobs in each other's way, the first of which expires.
fn two_jobs() -> System {
    System {
        jobs: vec![terms(1, 3, 1), terms(0, 5, 2)],
        ttrs_ms: vec![2],
        respawn_ttl_ms: 0,
        last_ms: 6,
        far_hints_max: 2,
        miscounted: [0; 4],
        planted: None,
    }
}

/// A job that expires while its timer is far away, and one that goes through the queue meanwhile.
fn far_and_near() -> System {
    System {
        jobs: vec![terms(4, 6, 1), terms(0, 0, 1)],
        ttrs_ms: vec![1],
        respawn_ttl_ms: 1,
        last_ms: 6,
        far_hints_max: 2,
        miscounted: [0; 4],
        planted: None,
    }
}

/// Counts that fall to 0 too early, and below.
fn damaged_counts() -> System {
    System {
        miscounted: [-1; 4],
        last_ms: 4,
        ..two_jobs()
    }
}

#[track_caller]
fn keeps_all_promises(name: &str, system: System) {
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
    keeps_all_promises("one job", one_job());
}

#[test]
fn two_jobs_keep_all_promises() {
    keeps_all_promises("two jobs", two_jobs());
}

#[test]
fn far_and_near_jobs_keep_all_promises() {
    keeps_all_promises("far and near", far_and_near());
}

#[test]
fn jobs_with_damaged_counts_keep_all_promises() {
    keeps_all_promises("damaged counts", damaged_counts());
}

/// The checker finds a way in which the mistake breaks the promise.
#[track_caller]
fn finds(planted: Planted, system: System, promise: &'static str) {
    let system = System {
        planted: Some(planted),
        ..system
    };
    let found = HasDiscoveries::AnyOf(BTreeSet::from([promise]));
    let checker = system
        .checker()
        .threads(THREADS)
        .finish_when(found)
        .spawn_bfs()
        .join();
    let way = checker.assert_any_discovery(promise).into_actions();
    println!("{planted:?} breaks {promise:?}: {way:?}");
}

#[test]
fn planted_mistakes_are_found() {
    finds(Planted::MoveTrustsHint, one_job(), "one lease at a time");
    finds(
        Planted::MoveDropsEarlyHint,
        one_job(),
        "something leads to every job in time",
    );
    finds(
        Planted::MoveDropsEarlyHint,
        one_job(),
        "pumps bring every job home",
    );
    finds(
        Planted::ReserveTrustsHint,
        two_jobs(),
        "never after ack or cancel",
    );
    finds(
        Planted::ReserveIgnoresExpiry,
        two_jobs(),
        "never after the time to live",
    );
    finds(
        Planted::LoadSetsBackTimers,
        one_job(),
        "something leads to every job in time",
    );
    finds(
        Planted::DeleteLeavesRecord,
        one_job(),
        "counts are those of the records",
    );
    finds(
        Planted::DeleteLeavesRecord,
        one_job(),
        "never after ack or cancel",
    );
    finds(
        Planted::SweepForgetsChunk,
        two_jobs(),
        "the sweep knows what expires",
    );
    finds(
        Planted::SweepForgetsChunk,
        two_jobs(),
        "pumps bring every job home",
    );
    finds(
        Planted::PublishSetsNoTimer,
        one_job(),
        "pumps bring every job home",
    );
    finds(
        Planted::AckIgnoresAttempt,
        one_job(),
        "ended only by the delivery that holds it",
    );
    finds(
        Planted::CountDeletesList,
        damaged_counts(),
        "something leads to every job in time",
    );
    finds(
        Planted::PodRepeatsRelease,
        two_jobs(),
        "one lease at a time",
    );
}
