//! Requests that fail without an excuse.

use super::*;
use crate::history::HUNG_UP;

#[test]
fn full_memory_refuses_publishes_only() {
    let full = |history: HistoryBuilder| history.episode(Class::MemoryFull, span(0, S), None);
    let failed = RequestOutcome::Failed(500);
    full(HistoryBuilder::new().publish_with(version_spec(0, 0, 1), failed.clone())).expect(&[]);
    full(HistoryBuilder::new().consume(span(MS, 2 * MS), failed)).expect(&[Defect::Refused]);
    full(HistoryBuilder::new().consume(span(MS, 2 * MS), no_job())).expect(&[]);
}

#[test]
fn moving_slots_fail_no_request() {
    let publish =
        || HistoryBuilder::new().publish_with(version_spec(0, 0, 1), RequestOutcome::Failed(500));
    let moved = |history: HistoryBuilder| history.episode(Class::Reshard, span(0, S), None);
    moved(publish()).expect(&[Defect::Refused]);
    // Unless another fault may have caused it.
    let cut = publish().episode(Class::NetCut, span(MS, 2 * MS), None);
    moved(cut).expect(&[]);
}

#[test]
fn a_request_may_fail_only_during_a_fault() {
    let failed = |outcome| HistoryBuilder::new().publish_with(version_spec(0, 0, 1), outcome);
    failed(RequestOutcome::Failed(500)).expect(&[Defect::Refused]);
    // 504 is not a failure: the jobs are stored. Neither is a hang-up of the client.
    failed(RequestOutcome::Failed(504)).expect(&[]);
    failed(no_job()).expect(&[]);
    for harmless in [Class::Upgrade, Class::IdleTimeout, Class::PumpKill] {
        let meanwhile = failed(RequestOutcome::Failed(500)).episode(harmless, span(0, S), None);
        meanwhile.expect(&[Defect::Refused]);
    }
    let killed = failed(RequestOutcome::Failed(500)).episode(Class::ApiKill, span(0, S), None);
    killed.expect(&[]);
    let mut busy = failed(RequestOutcome::Failed(500));
    busy.0.busy = vec![span(0, S)];
    busy.expect(&[]);
}

/// Other clients connect through a proxy, which accepts their connections while the API is unavailable.
#[test]
fn a_client_without_a_proxy_gets_an_answer_or_no_connection_while_an_api_stops() {
    let stopped = |is_direct, outcome| {
        let mut history = HistoryBuilder::new().publish_with(version_spec(0, 0, 1), outcome);
        history.0.operations[1].is_without_proxy = is_direct;
        history.episode(Class::Upgrade, span(0, S), None)
    };
    let unknown = |why: &str| RequestOutcome::Unknown(why.to_owned());
    stopped(true, unknown("reset")).expect(&[Defect::Refused]);
    stopped(true, unknown(HUNG_UP)).expect(&[]);
    stopped(true, RequestOutcome::NotSent).expect(&[]);
    stopped(false, unknown("reset")).expect(&[]);
}

/// Seed 1: the answer of a long poll was read half a second after its API had sent it and begun to stop. The next
/// request on that connection met its end.
#[test]
fn a_request_may_be_unanswered_once_an_api_that_stops_closes_idle_connections() {
    let sent = |after_the_first_close: i64, outcome| {
        let mut history = HistoryBuilder::new().publish_with(version_spec(0, 0, 1), outcome);
        let publish = &mut history.0.operations[1];
        publish.is_without_proxy = true;
        let from = publish
            .span
            .from
            .saturating_add_signed(-after_the_first_close);
        history = history.episode(Class::Upgrade, span(0, S), None);
        let to = from + MS;
        history.0.episodes[0].idle_closed = vec![Span { from, to }];
        history
    };
    let unanswered = || RequestOutcome::Unknown("closed".to_owned());
    sent(-1, unanswered()).expect(&[Defect::Refused]);
    sent(0, unanswered()).expect(&[]);
    let ms = i64::try_from(MS).unwrap();
    sent(ms, unanswered()).expect(&[]);
    sent(ms + 1, unanswered()).expect(&[Defect::Refused]);
    sent(0, RequestOutcome::Failed(500)).expect(&[Defect::Refused]);
}

#[test]
fn a_fault_of_one_server_does_not_excuse_queues_of_others() {
    let beside = |mut history: HistoryBuilder, unaffected: &[u16]| {
        history = history.episode(Class::ShardAway, span(0, 10 * S), None);
        history.0.episodes[0].unaffected_queues = unaffected.to_vec();
        history.0.episodes[0].unaffected_from = T0;
        history
    };
    let late = HistoryBuilder::new()
        .publish(version_spec(0, 0, 1))
        .deliver(5 * S, 0);
    let late = late.ack(5 * S + 5 * MS, acked());
    beside(late.clone(), &[]).expect(&[]);
    beside(late.clone(), &[4]).expect(&[]);
    beside(late.clone(), &[3, 4]).expect(&[Defect::Late]);
    let from = |moment: u64| {
        let mut history = beside(late.clone(), &[3]);
        history.0.episodes[0].unaffected_from = T0 + moment;
        history
    };
    from(3900 * MS).expect(&[Defect::Late]);
    from(4100 * MS).expect(&[]);
    let failed =
        || HistoryBuilder::new().publish_with(version_spec(0, 0, 1), RequestOutcome::Failed(500));
    beside(failed(), &[4]).expect(&[]);
    beside(failed(), &[3]).expect(&[Defect::Refused]);
    // A consume that names a queue of the server may fail.
    let consume = |queues: Vec<u16>| {
        HistoryBuilder::new().request(0, consume_of(&queues), RequestOutcome::Failed(500))
    };
    beside(consume(vec![3, 5]), &[3]).expect(&[]);
    beside(consume(vec![3, 5]), &[3, 5]).expect(&[Defect::Refused]);
}
