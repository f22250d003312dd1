//! Requests that fail for no reason.

use super::*;
use crate::history::HUNG_UP;

#[test]
fn full_memory_refuses_publishes_only() {
    let full = |tale: Tale| tale.episode(Class::MemoryFull, span(0, S), None);
    let failed = Outcome::Failed(500);
    full(Tale::new().publish_with(terms(0, 0, 1), failed.clone())).expect(&[]);
    full(Tale::new().consume(span(MS, 2 * MS), failed)).expect(&[Defect::Refused]);
    full(Tale::new().consume(span(MS, 2 * MS), left())).expect(&[]);
}

#[test]
fn slots_that_move_fail_nothing() {
    let publish = || Tale::new().publish_with(terms(0, 0, 1), Outcome::Failed(500));
    let moved = |tale: Tale| tale.episode(Class::Reshard, span(0, S), None);
    moved(publish()).expect(&[Defect::Refused]);
    // Unless there may be another reason for it.
    let cut = publish().episode(Class::NetCut, span(MS, 2 * MS), None);
    moved(cut).expect(&[]);
}

#[test]
fn a_request_fails_only_where_something_is_wrong() {
    let failed = |outcome| Tale::new().publish_with(terms(0, 0, 1), outcome);
    failed(Outcome::Failed(500)).expect(&[Defect::Refused]);
    // The jobs are stored, and something was wrong before.
    failed(Outcome::Failed(504)).expect(&[]);
    failed(left()).expect(&[]);
    for harmless in [Class::Upgrade, Class::IdleTimeout, Class::PumpKill] {
        let meanwhile = failed(Outcome::Failed(500)).episode(harmless, span(0, S), None);
        meanwhile.expect(&[Defect::Refused]);
    }
    let killed = failed(Outcome::Failed(500)).episode(Class::ApiKill, span(0, S), None);
    killed.expect(&[]);
    let mut busy = failed(Outcome::Failed(500));
    busy.0.busy = vec![span(0, S)];
    busy.expect(&[]);
}

/// Between other clients and an API there is a proxy, which accepts their connections while the API is away.
#[test]
fn a_client_without_a_proxy_gets_an_answer_or_no_connection_while_an_api_stops() {
    let stopped = |is_direct, outcome| {
        let mut tale = Tale::new().publish_with(terms(0, 0, 1), outcome);
        tale.0.operations[1].is_direct = is_direct;
        tale.episode(Class::Upgrade, span(0, S), None)
    };
    let unknown = |why: &str| Outcome::Unknown(why.to_owned());
    stopped(true, unknown("reset")).expect(&[Defect::Refused]);
    stopped(true, unknown(HUNG_UP)).expect(&[]);
    stopped(true, Outcome::NotSent).expect(&[]);
    stopped(false, unknown("reset")).expect(&[]);
}

#[test]
fn what_is_wrong_with_one_server_is_no_excuse_for_the_queues_of_others() {
    let beside = |mut tale: Tale, spared: &[u16]| {
        tale = tale.episode(Class::ShardAway, span(0, 10 * S), None);
        tale.0.episodes[0].spared = spared.to_vec();
        tale.0.episodes[0].spared_from = T0;
        tale
    };
    let late = Tale::new().publish(terms(0, 0, 1)).deliver(5 * S, 0);
    let late = late.ack(5 * S + 5 * MS, Outcome::Deleted);
    beside(late.clone(), &[]).expect(&[]);
    beside(late.clone(), &[4]).expect(&[]);
    beside(late.clone(), &[3, 4]).expect(&[Defect::Late]);
    let from = |moment: u64| {
        let mut tale = beside(late.clone(), &[3]);
        tale.0.episodes[0].spared_from = T0 + moment;
        tale
    };
    from(3900 * MS).expect(&[Defect::Late]);
    from(4100 * MS).expect(&[]);
    let failed = || Tale::new().publish_with(terms(0, 0, 1), Outcome::Failed(500));
    beside(failed(), &[4]).expect(&[]);
    beside(failed(), &[3]).expect(&[Defect::Refused]);
    // A consume that names a queue of the server may fail.
    let consume = |queues: Vec<u16>| {
        let request = Request::Consume {
            queues,
            ttr: TTR,
            count: 1,
        };
        Tale::new().operation(span(0, MS), request, Outcome::Failed(500))
    };
    beside(consume(vec![3, 5]), &[3]).expect(&[]);
    beside(consume(vec![3, 5]), &[3, 5]).expect(&[Defect::Refused]);
}
