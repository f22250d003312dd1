//! Purges and respawns.

use super::*;

fn purge_ready(tale: Tale, at: u64, outcome: Outcome) -> Tale {
    tale.ask(at, Request::PurgeReady { queue: 3 }, outcome)
}

fn purge_dead(tale: Tale, at: u64) -> Tale {
    let request = Request::PurgeDead { queue: 3, limit: 5 };
    tale.ask(at, request, Outcome::Deleted)
}

#[test]
fn a_purge_deletes_what_may_have_been_ready() {
    let ready = || Tale::new().publish(terms(S, 0, 1));
    purge_ready(ready(), 500 * MS, Outcome::Deleted).expect(&[Defect::Lost]);
    purge_ready(ready(), S + 2 * MS, Outcome::Deleted).expect(&[]);
    purge_ready(ready(), S + 2 * MS, left()).expect(&[]);
    purge_ready(ready(), S + 2 * MS, Outcome::NotSent).expect(&[Defect::Lost]);
    // One that a consumer held was not ready.
    let held = || Tale::new().publish(terms(0, 0, 2)).deliver(S, 1);
    let held = || {
        let mut tale = held();
        tale.0.busy.push(span(0, S));
        tale
    };
    purge_ready(held(), 2 * S, Outcome::Deleted).expect(&[Defect::Lost]);
    purge_ready(held(), S + TTR, Outcome::Deleted).expect(&[]);
    // Dead ones are not ready, either.
    let dead = || Tale::new().publish(terms(0, 0, 1)).deliver(2 * MS, 0);
    purge_ready(dead(), 5 * S, Outcome::Deleted).expect(&[Defect::Lost]);
    purge_ready(dead().respawn(4 * S), 5 * S, Outcome::Deleted).expect(&[]);
}

#[test]
fn a_purge_of_the_dead_deletes_what_may_have_died() {
    let used = || Tale::new().publish(terms(0, 0, 1)).deliver(2 * MS, 0);
    purge_dead(used(), S).expect(&[Defect::Lost]);
    purge_dead(used(), TTR + 3 * MS).expect(&[]);
    let unused = || Tale::new().publish(terms(0, 0, 2)).deliver(2 * MS, 1);
    purge_dead(unused(), 6 * S).expect(&[Defect::Lost]);
    purge_dead(unused().consume(span(3 * S, 4 * S), left()), 6 * S).expect(&[]);
}

#[test]
fn what_was_surely_purged_does_not_come() {
    let purged = |tale: Tale| {
        let tale = purge_ready(tale, S, Outcome::Deleted);
        let tale = tale.deliver(1200 * MS, 0);
        tale.ack(1300 * MS, Outcome::Deleted)
    };
    let mut tale = Tale::new().publish(terms(0, 0, 1));
    tale.0.bound = 1200 * MS;
    purged(tale.clone()).expect(&[Defect::AfterItsEnd]);
    // A consumer whose time was over may have held it while the others were purged, and given it back.
    let nothing = Outcome::Delivered(Vec::new());
    let gone = |to| purged(tale.clone().consume(span(MS, to), nothing.clone()));
    gone(900 * MS).expect(&[]);
    gone(200 * MS).expect(&[Defect::AfterItsEnd]);
    let mut delayed = Tale::new().publish(terms(MS, 0, 1));
    delayed.0.bound = 1200 * MS;
    purged(delayed).expect(&[]);
}

#[test]
fn a_respawned_job_has_one_try_more_and_comes_at_once() {
    let dead = Tale::new().publish(terms(0, 0, 1)).deliver(2 * MS, 0);
    let again = |at, tries_left| {
        let tale = dead.clone().respawn(5 * S).deliver(at, tries_left);
        tale.ack(at + 5 * MS, Outcome::Deleted)
    };
    again(5 * S + 2 * MS, 0).expect(&[]);
    again(5 * S + 2 * MS, 1).expect(&[Defect::Doubled]);
    again(6 * S + 2 * MS, 0).expect(&[Defect::Late]);
    // It is not lost until nobody respawns it any more.
    let twice = dead
        .respawn(5 * S)
        .deliver(5 * S + 2 * MS, 0)
        .respawn(8 * S);
    twice.expect(&[Defect::Lost]);
    twice
        .deliver(8 * S + 2 * MS, 0)
        .ack(9 * S, Outcome::Deleted)
        .expect(&[]);
}

#[test]
fn tries_do_not_vanish() {
    let vanished = |tale: Tale| {
        let tale = tale.publish(terms(0, 0, 3)).deliver(2 * MS, 2);
        let tale = tale.deliver(TTR + 5 * MS, 0);
        tale.ack(5 * S, Outcome::Deleted)
    };
    vanished(Tale::new()).expect(&[Defect::DiedEarly]);
    vanished(Tale::new().consume(span(S, TTR + 3 * MS), left())).expect(&[]);
    // While replies of Redis were lost an API may have taken it for consumers that went on to wait.
    let cut = Tale::new().episode(Class::NetReplies, span(TTR, 3 * S), None);
    vanished(cut).expect(&[]);
}
