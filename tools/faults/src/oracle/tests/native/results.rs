//! Publishers that wait for the end of their jobs.

use super::*;

fn waiting(version: VersionSpec) -> VersionSpec {
    VersionSpec { wait: S, ..version }
}

fn result_of(id: &str, number: u64, attempt: u32) -> JobEndAnswer {
    JobEndAnswer::Result(RunResult {
        id: id.to_owned(),
        attempt,
        number,
    })
}

impl NativeHistoryBuilder {
    /// Publishes a version, and is answered so a second later.
    fn publish_and_wait(self, at: u64, version: VersionSpec, end: JobEndAnswer) -> Self {
        let request = ClientRequest::publish(QUEUE, waiting(version));
        let id = self.id.to_owned();
        let answer = RequestOutcome::Ended { id, end };
        self.operation(span(at, at + S), request, answer)
    }
}

#[test]
fn a_result_is_that_of_the_run_that_ended_the_job() {
    let run = |end| {
        let waited = NativeHistoryBuilder::new().publish_and_wait(0, plain(1), end);
        let again = waited.deliver(2 * MS, 1, 1);
        let again = again.deliver_with(3 * S, 1, 2, |got| got.run_at = Some(T0));
        again.ack(3 * S + 9 * MS, 1, 2)
    };
    let waited = |end| {
        let waited = NativeHistoryBuilder::new().publish_and_wait(0, plain(1), end);
        waited.deliver(2 * MS, 1, 1).ack(9 * MS, 1, 1)
    };
    let wrong = &[Defect::WrongResult];
    waited(result_of("A", 1, 1)).expect(&[]);
    // Of another job, of another version, of another run.
    waited(result_of("B", 1, 1)).expect(wrong);
    waited(result_of("A", 2, 1)).expect(wrong);
    waited(result_of("A", 1, 2)).expect(wrong);
    waited(JobEndAnswer::Foreign).expect(wrong);
    // An answer from the future.
    let found = run(result_of("A", 1, 2));
    let verdict = judge(&found.builder.0);
    let mut found = verdict.findings.iter();
    assert!(
        found.any(|it| it.defect == Defect::WrongResult),
        "{verdict:#?}"
    );
}

#[test]
fn the_result_of_a_run_that_is_repeated_is_not_shown() {
    let keep = || keyed(1, IfExists::Keep);
    let newest = |end| {
        let both = NativeHistoryBuilder::new()
            .publish_and_wait(0, keep(), end)
            .deliver(2 * MS, 1, 1)
            .publish(4 * MS, keyed(2, IfExists::Replace), PublishResult::Rerun);
        let rerun = both.settle(9 * MS, (1, 1), SettleAction::Ack, Outcome::Rerun);
        rerun
            .deliver_with(12 * MS, 2, 2, |got| got.run_at = Some(T0 + 9 * MS))
            .ack(20 * MS, 2, 2)
    };
    newest(result_of("A", 2, 2)).expect(&[]);
    let old = newest(result_of("A", 1, 1));
    old.expect(&[Defect::WrongResult]);
    // Redis may have lost that answer.
    old.failover(0, S).expect(&[]);
}

#[test]
fn an_answer_about_the_end_of_a_job_is_true() {
    let waited = |end| {
        let waited = NativeHistoryBuilder::new().publish_and_wait(0, plain(1), end);
        waited.deliver(2 * MS, 1, 1)
    };
    let wrong = &[Defect::WrongResult];
    let done = |end| waited(end).ack(9 * MS, 1, 1);
    done(JobEndAnswer::NoResult).expect(wrong);
    done(JobEndAnswer::Dead).expect(wrong);
    done(JobEndAnswer::Gone).expect(wrong);
    for end in [
        JobEndAnswer::NoResult,
        JobEndAnswer::Dead,
        JobEndAnswer::Gone,
    ] {
        done(end).failover(0, S).expect(&[]);
    }
    let dead = |end| {
        let (action, result) = (SettleAction::FailDead, Outcome::Dead);
        waited(end).settle(9 * MS, (1, 1), action, result)
    };
    dead(JobEndAnswer::Dead).expect(&[]);
    dead(JobEndAnswer::Gone).expect(wrong);
    let cancelled = |end| waited(end).cancel(9 * MS, IfRunning::Revoke, CancelEffect::Revoked);
    cancelled(JobEndAnswer::Gone).expect(&[]);
    cancelled(JobEndAnswer::Dead).expect(wrong);
}

#[test]
fn a_job_that_a_client_waits_for_may_keep_its_key() {
    let later = |version| {
        let first = NativeHistoryBuilder::new();
        let first = first.publish(0, version, PublishResult::Created);
        let first = first.deliver(2 * MS, 1, 1).ack(9 * MS, 1, 1);
        let exists = VersionResult::Job {
            id: "A".to_owned(),
            outcome: PublishResult::Exists,
            state: JobState::Done,
            run_at: None,
            is_replayed: false,
        };
        first.publish_result(9 * S, keyed(2, IfExists::Keep), exists)
    };
    later(keyed(1, IfExists::Keep)).expect(&[Defect::KeyShared]);
    later(waiting(keyed(1, IfExists::Keep))).expect(&[]);
}
