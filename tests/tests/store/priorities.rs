//! Priorities of ready jobs.

use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::values::{DurationMs, Priority};
use tidegate_core::{IfExists, IfRunning, JobId, NativeOptions, NewJob, RetryPolicy};
use tidegate_store::{
    AfterFailure, AuditFinding, Claim, FailRequest, Inconsistency, JobReference, LeasedJob,
    ReserveOptions,
};
use tidegate_testkit::consistency;

use crate::audit::audit;
use crate::fixture::{START, StoreFixture, all_queues, fixture, job};
use crate::waiting_process::WaitingProcess;

/// A job of the native API.
fn urgent(body: &str, priority: u8) -> NewJob {
    let native = NativeOptions {
        priority,
        ..NativeOptions::default()
    };
    NewJob {
        tries: 0,
        native: Some(Box::new(native)),
        ..job(body)
    }
}

fn key(name: &str) -> String {
    format!("tg:0:{{8209}}:{name}")
}

impl StoreFixture {
    async fn publish_urgent(&self, body: &str, priority: u8) -> JobId {
        self.publish(START, urgent(body, priority)).await
    }

    /// The entry of the queue in `queues`.
    fn number_of_queue(&self) -> String {
        let mut read = redis::cmd("HGET");
        read.arg(key("queues")).arg("shop/orders");
        read.query(&mut self.connection()).unwrap()
    }

    fn exists(&self, name: &str) -> bool {
        let mut exists = redis::cmd("EXISTS");
        exists.arg(key(name)).query(&mut self.connection()).unwrap()
    }
}

#[tokio::test]
async fn jobs_of_a_higher_priority_are_delivered_first_and_each_in_their_order() {
    let f = fixture().await;
    f.publish(START, job("lmstfy")).await;
    assert_eq!(f.number_of_queue(), "1", "a queue without priorities");
    for (body, priority) in [("a0", 0), ("a4", 4), ("a2", 2), ("b4", 4), ("b2", 2)] {
        f.publish_urgent(body, priority).await;
    }
    assert_eq!(f.number_of_queue(), "+1");
    f.expect(START, &["a4", "b4", "a2", "b2", "lmstfy", "a0"])
        .await;
    assert!(!f.exists("turns:1"));
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn every_eighth_job_has_a_lower_priority() {
    for batch in [1, 3, 64] {
        let f = fixture().await;
        for number in 0..30 {
            f.publish_urgent(&format!("4-{number}"), 4).await;
        }
        for number in 0..3 {
            f.publish_urgent(&format!("2-{number}"), 2).await;
            f.publish_urgent(&format!("0-{number}"), 0).await;
        }
        let mut got = Vec::new();
        while got.len() < 36 {
            got.extend(f.reserve(START, batch, 1000).await);
        }
        let lower = got.iter().enumerate();
        let lower = lower.filter(|(at, body)| !body.starts_with('4') && *at < 32);
        let lower: Vec<_> = lower.map(|(at, body)| (at, body.as_str())).collect();
        assert_eq!(
            lower,
            [(7, "2-0"), (15, "0-0"), (23, "2-1"), (31, "0-1")],
            "{batch} at a time"
        );
        assert_eq!(got[32..], ["4-28", "4-29", "2-2", "0-2"], "{batch}");
        consistency::check(&f.redis.url()).await;
    }
}

#[tokio::test]
async fn a_stale_hint_takes_no_turn_from_its_priority() {
    let f = fixture().await;
    for number in 0..7 {
        f.publish_urgent(&format!("4-{number}"), 4).await;
    }
    let cancelled = f.publish_urgent("cancelled", 2).await;
    f.publish_urgent("2", 2).await;
    f.publish_urgent("0", 0).await;
    let cancel = f.store.at(START);
    let cancel = cancel.cancel(&f.queue, JobReference::Id(cancelled), IfRunning::Refuse);
    let _ = cancel.await.unwrap();
    let mut got = Vec::new();
    while got.len() < 9 {
        got.extend(f.reserve(START, 1, 1000).await);
    }
    assert_eq!(got[7..], ["2", "0"]);
}

#[tokio::test]
async fn retries_lost_leases_releases_and_respawns_keep_the_priority() {
    let f = fixture().await;
    let id = f.publish_urgent("urgent", 3).await;
    f.publish_urgent("others", 0).await;
    let lease = async |now_ms| {
        let claims = [Claim::new(1, 1000)];
        let reserved = f.store.at(now_ms).reserve(&f.queue, &claims).await.unwrap();
        let job = &reserved.jobs[0][0];
        assert_eq!((job.id, job.priority), (id, 3), "at {now_ms}");
        LeasedJob {
            id,
            attempt: job.attempt,
        }
    };
    let released = lease(START).await;
    let store = f.store.at(START);
    let _ = store.release_all(&f.queue, &[released], 0).await.unwrap();
    lease(START + 1).await;
    f.move_due(START + 2000).await;
    let fails = async |now_ms, then| {
        let failed = FailRequest {
            job: lease(now_ms).await,
            then,
            error: "x".into(),
        };
        let policy = RetryPolicy::default();
        let store = f.store.at(now_ms);
        let _ = store.fail_all(&f.queue, &[failed], &policy).await.unwrap();
    };
    fails(START + 2001, AfterFailure::RetryInMs(10)).await;
    f.move_due(START + 3000).await;
    fails(START + 3001, AfterFailure::Bury).await;
    let store = f.store.at(START + 4000);
    assert_eq!(store.respawn(&f.queue, 10, 0).await.unwrap(), 1);
    lease(START + 4001).await;
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_replaced_job_is_in_the_line_of_its_new_priority() {
    let f = fixture().await;
    let publish = async |key: &str, body: &str, priority| {
        let mut job = f.keyed(key, IfExists::Replace, body, 0);
        job.job.native.as_mut().unwrap().priority = priority;
        f.publish_keyed(START, job).await
    };
    publish("a", "a0", 0).await;
    publish("b", "b0", 0).await;
    publish("c", "c4", 4).await;
    publish("b", "b1", 1).await;
    publish("c", "c0", 0).await;
    publish("a", "same line", 0).await;
    f.expect(START, &["b1", "same line", "c0"]).await;
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_change_moves_a_waiting_job_to_another_line() {
    let f = fixture().await;
    let store = f.store.at(START);
    let change = async |id: JobId, delay_ms: Option<u64>, priority: u64| {
        let change = JobChange {
            delay: delay_ms.map(DurationMs::saturating),
            priority: Some(Priority::try_from(priority).unwrap()),
            ..JobChange::default()
        };
        let _ = store.change(&f.queue, id, change).await.unwrap();
    };
    let (first, second) = (
        f.publish_urgent("1", 0).await,
        f.publish_urgent("2", 0).await,
    );
    let third = f.publish(START, urgent("3", 2)).await;
    change(second, None, 4).await;
    change(third, Some(5000), 1).await;
    change(third, None, 3).await;
    change(first, Some(0), 0).await;
    let peeked = store.peek_ready(&f.queue).await.unwrap().unwrap();
    assert_eq!((peeked.job.id, peeked.job.priority), (second, 4));
    f.expect(START, &["2", "1"]).await;
    f.move_due(START + 6000).await;
    let delayed = store.peek_job(&f.queue, third).await.unwrap().unwrap();
    assert_eq!(delayed.job.priority, 3);
    // The leases of the others have ended.
    f.expect(START + 6000, &["2", "3", "1"]).await;
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_waiting_process_is_rung_for_a_job_of_any_priority() {
    let f = fixture().await;
    let mut process = WaitingProcess::start(&f).await;
    let options = ReserveOptions {
        registers: true,
        max_running: None,
        group_max_running: None,
    };
    for priority in [4, 0, 2] {
        let claims = [Claim::new(1, 1000)];
        let store = process.store.at(START);
        let reserved = store.reserve_with(&f.queue, &claims, options).await;
        let reserved = reserved.unwrap();
        assert!(reserved.jobs[0].is_empty() && reserved.is_registered);
        f.publish_urgent("x", priority).await;
        process.rang_for(&f.queue).await;
        let reserved = store.reserve(&f.queue, &claims).await.unwrap();
        assert_eq!(reserved.jobs[0].len(), 1);
    }
}

#[tokio::test]
async fn a_list_of_ready_jobs_has_those_of_all_priorities_in_pages_of_any_size() {
    let f = fixture().await;
    let mut published = Vec::new();
    for number in 0..60_u8 {
        published.push(f.publish_urgent("x", number % 5).await);
    }
    for hints in [1, 7, 100] {
        let listed = f.list_ready(hints).await;
        assert_eq!(listed, published, "{hints} hints a call");
    }
}

#[tokio::test]
async fn explain_says_how_many_jobs_of_a_higher_priority_are_ahead() {
    let f = fixture().await;
    let before = f.publish_urgent("0", 1).await;
    let id = f.publish_urgent("1", 1).await;
    for priority in [2, 2, 4, 0] {
        f.publish_urgent("x", priority).await;
    }
    let store = f.store.at(START);
    let explain = async |job: JobReference| store.explain(&f.queue, job).await.unwrap().unwrap();
    let found = explain(id.into()).await;
    assert_eq!((found.before.most, found.higher_priority), (1, 3));
    let first = explain(before.into()).await;
    assert_eq!((first.before.most, first.higher_priority), (0, 3));
}

#[tokio::test]
async fn a_queue_whose_jobs_had_priorities_is_purged_and_forgotten() {
    for ends in ["purged", "taken", "cancelled"] {
        let f = fixture().await;
        let mut ids = Vec::new();
        for number in 0..40_u8 {
            ids.push(f.publish_urgent("x", number % 5).await);
        }
        let store = f.store.at(START);
        match ends {
            "purged" => assert_eq!(store.purge_ready(&f.queue).await.unwrap(), 40),
            "taken" => {
                assert_eq!(f.reserve(START, 100, 1000).await.len(), 40);
                for id in &ids {
                    let _ = store.ack(&f.queue, *id, None).await.unwrap();
                }
            }
            _ => {
                for id in &ids {
                    let cancelled = store.cancel(&f.queue, *id, IfRunning::Refuse).await;
                    let _ = cancelled.unwrap();
                }
            }
        }
        assert_eq!(f.counts().await, [0; 4]);
        for later in [70_000, 140_000, 210_000] {
            f.sweep(START + later).await;
        }
        assert!(all_queues(&f.store).await.is_empty(), "{ends}");
        assert_eq!(f.keys_of_jobs(), Vec::<String>::new(), "{ends}");
        consistency::check(&f.redis.url()).await;
        f.publish_urgent("again", 2).await;
        f.expect(START + 300_000, &["again"]).await;
    }
}

#[tokio::test]
async fn a_lane_with_jobs_of_any_priority_is_not_closed() {
    let f = fixture().await;
    let id = f.publish_urgent("x", 3).await;
    let lane = f.queue.lane(0);
    let store = f.store.at(START);
    assert!(!store.close_lane(lane, 1).await.unwrap());
    let _ = store.ack(&f.queue, id, None).await.unwrap();
    assert!(store.close_lane(lane, 1).await.unwrap());
    assert!(!f.exists("turns:1") && !f.exists("ready:1:3"));
    assert_eq!(store.open_lane(lane, 2).await.unwrap(), None);
    f.publish_urgent("y", 3).await;
    f.expect(START, &["y"]).await;
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn an_audit_gives_a_line_its_turn_and_its_queue_the_mark() {
    for damage in ["turns", "mark", "list"] {
        let f = fixture().await;
        f.publish_urgent("x", 3).await;
        let mut connection = f.connection();
        let mut harm = match damage {
            "turns" => redis::cmd("DEL"),
            "mark" => redis::cmd("HSET"),
            _ => redis::cmd("DEL"),
        };
        match damage {
            "turns" => harm.arg(key("turns:1")),
            "mark" => harm.arg(key("queues")).arg("shop/orders").arg("1"),
            _ => harm.arg(key("ready:1:3")),
        };
        harm.exec(&mut connection).unwrap();
        let (_, found) = audit(&f, true).await;
        assert!(found.iter().all(|found| found.repaired), "{found:?}");
        let is_of_line = |found: &AuditFinding| match &found.defect {
            Inconsistency::BadTurn { line } => damage != "list" && line.priority == 3,
            Inconsistency::NotListed { .. } => damage == "list",
            _ => false,
        };
        assert!(found.iter().any(is_of_line), "{damage}: {found:?}");
        assert_eq!(audit(&f, false).await.1, [], "{damage}");
        f.expect(START, &["x"]).await;
        consistency::check(&f.redis.url()).await;
    }
}

#[tokio::test]
async fn another_process_is_rung_if_a_doorbell_for_an_urgent_job_was_lost() {
    let f = fixture().await;
    let mut killed = WaitingProcess::registered(&f, START, &f.queue).await;
    let mut other = WaitingProcess::registered(&f, START, &f.queue).await;
    f.publish_urgent("1", 4).await;
    killed.rang_for(&f.queue).await;
    f.publish(START + 50, urgent("2", 4)).await;
    assert!(other.is_quiet().await, "the first may still come");
    f.publish(START + 200, urgent("3", 4)).await;
    other.rang_for(&f.queue).await;
}

#[tokio::test]
async fn jobs_whose_priority_was_raised_hold_up_no_call() {
    const JOBS: u16 = 2000;
    let f = fixture().await;
    let store = f.store.at(START);
    let raise = JobChange {
        priority: Some(Priority::MAX),
        ..JobChange::default()
    };
    for _ in 0..JOBS {
        let id = f.publish_urgent("x", 0).await;
        let _ = store.change(&f.queue, id, raise).await.unwrap();
    }
    f.publish_urgent("low", 0).await;
    let commands = |f: &StoreFixture| -> u64 {
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut f.connection())
            .unwrap();
        let calls = info
            .lines()
            .filter_map(|line| line.split_once("calls=")?.1.split_once(','));
        calls
            .filter_map(|(calls, _)| calls.parse::<u64>().ok())
            .sum()
    };
    let before = commands(&f);
    let mut got = Vec::new();
    for _ in 0..8 {
        got.extend(f.reserve(START, 1, 1000).await);
    }
    assert_eq!(got.last().map(String::as_str), Some("low"));
    let used = commands(&f) - before;
    assert!(used < 1000, "{used} commands for 8 jobs");
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn an_audit_restores_the_entry_of_a_queue_with_lines_and_takes_no_other() {
    let f = fixture().await;
    f.publish_urgent("old", 3).await;
    let lose = |f: &StoreFixture, key: String, field: Option<&str>| {
        let mut lose = redis::cmd(if field.is_some() { "HDEL" } else { "DEL" });
        lose.arg(key);
        if let Some(field) = field {
            lose.arg(field);
        }
        lose.exec(&mut f.connection()).unwrap();
    };
    // The entry alone: it comes back with its mark and its count.
    lose(&f, key("queues"), Some("shop/orders"));
    audit(&f, true).await;
    assert_eq!(f.number_of_queue(), "+1");
    assert_eq!(audit(&f, false).await.1, []);
    consistency::check(&f.redis.url()).await;
    // A new queue has its name meanwhile.
    lose(&f, key("queues"), Some("shop/orders"));
    f.publish_urgent("new", 0).await;
    assert_eq!(f.number_of_queue(), "2");
    lose(&f, key("turns:1"), None);
    audit(&f, true).await;
    assert_eq!(f.number_of_queue(), "2");
    f.expect(START, &["new"]).await;
}

#[tokio::test]
async fn an_audit_leaves_nothing_of_a_queue_without_a_name() {
    let f = fixture().await;
    f.publish_urgent("x", 3).await;
    let mut connection = f.connection();
    redis::cmd("DEL")
        .arg(key("q:1"))
        .exec(&mut connection)
        .unwrap();
    let mut entry = redis::cmd("HDEL");
    entry
        .arg(key("queues"))
        .arg("shop/orders")
        .exec(&mut connection)
        .unwrap();
    audit(&f, true).await;
    assert_eq!(audit(&f, false).await.1, []);
    assert!(!f.exists("ready:1:3") && !f.exists("turns:1"));
}

#[tokio::test]
async fn a_damaged_number_of_taken_jobs_fails_no_reserve() {
    let f = fixture().await;
    for taken in ["0.5", "x", "-3", "1e300"] {
        f.publish_urgent("high", 4).await;
        f.publish_urgent("low", 0).await;
        let mut damage = redis::cmd("HSET");
        damage.arg(key("q:1")).arg("taken").arg(taken);
        damage.exec(&mut f.connection()).unwrap();
        assert_eq!(f.reserve(START, 10, 1000).await.len(), 2, "{taken}");
    }
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_lane_that_opens_again_has_the_mark_if_it_has_lines() {
    let f = fixture().await;
    let id = f.publish_urgent("stale", 3).await;
    let store = f.store.at(START);
    let cancelled = store.cancel(&f.queue, id, IfRunning::Refuse).await;
    let _ = cancelled.unwrap();
    let mut closed = redis::cmd("HSET");
    closed
        .arg(key("queues"))
        .arg("shop/orders")
        .arg("closed 1 1");
    closed.exec(&mut f.connection()).unwrap();
    assert_eq!(store.open_lane(f.queue.lane(0), 2).await.unwrap(), None);
    f.publish_urgent("x", 3).await;
    f.expect(START, &["x"]).await;
}
