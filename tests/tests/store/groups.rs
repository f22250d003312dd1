//! Groups of jobs: turns, limits of running jobs, and their traces in Redis.

use futures_util::future::join_all;
use tidegate_core::v1::job::JobChange;
use tidegate_core::v1::values::Priority;
use tidegate_core::{
    GroupHash, IfExists, IfRunning, Job, JobId, NativeOptions, NewJob, RecordExtension, RetryPolicy,
};
use tidegate_store::{
    AfterFailure, Claim, FailRequest, Inconsistency, LeasedJob, PolledQueue, ReserveOptions,
};
use tidegate_testkit::consistency;

use crate::audit::audit;
use crate::fixture::{START, StoreFixture, all_queues, fixture, job};
use crate::waiting_process::WaitingProcess;

/// A job of the native API in a group; `""` = without one.
pub(crate) fn grouped(body: &str, group: &str, priority: u8) -> NewJob {
    let native = NativeOptions {
        priority,
        extension: RecordExtension {
            group_hash: (!group.is_empty()).then(|| GroupHash::of(group)),
            ..RecordExtension::default()
        },
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

pub(crate) fn limited(group_max_running: u64) -> ReserveOptions {
    ReserveOptions {
        registers: false,
        max_running: None,
        group_max_running: Some(group_max_running),
    }
}

pub(crate) fn text_of(job: &Job) -> String {
    String::from_utf8(job.body.to_vec()).unwrap()
}

const fn lease_of(job: &Job) -> LeasedJob {
    LeasedJob {
        id: job.id,
        attempt: job.attempt,
    }
}

impl StoreFixture {
    async fn publish_grouped(&self, body: &str, group: &str) -> JobId {
        self.publish(START, grouped(body, group, 0)).await
    }

    /// Up to `count` jobs, leased for a second.
    pub(crate) async fn take(&self, now_ms: u64, count: u16, options: ReserveOptions) -> Vec<Job> {
        let (store, claims) = (self.store.at(now_ms), [Claim::new(count, 1000)]);
        let reserved = store.reserve_with(&self.queue, &claims, options).await;
        reserved.unwrap().jobs.concat()
    }

    async fn take_texts(&self, now_ms: u64, count: u16, options: ReserveOptions) -> Vec<String> {
        self.take(now_ms, count, options)
            .await
            .iter()
            .map(text_of)
            .collect()
    }

    fn held_for(&self) -> Option<u64> {
        let mut get = redis::cmd("HGET");
        get.arg(key("q:1")).arg("held_for");
        get.query(&mut self.connection()).unwrap()
    }
}

#[tokio::test]
async fn groups_take_turns_and_jobs_without_a_group_are_one_group() {
    for batch in [1, 2, 5, 64] {
        let f = fixture().await;
        for number in 0..4 {
            for group in ["a", "b", ""] {
                f.publish_grouped(&format!("{group}{number}"), group).await;
            }
        }
        f.publish(START, job("4")).await;
        f.publish_grouped("c0", "c").await;
        let mut got = Vec::new();
        while got.len() < 14 {
            got.extend(f.reserve(START, batch, 1000).await);
        }
        let of = |group: char| {
            let texts = got.iter().enumerate();
            let texts = texts.filter(|(_, text)| {
                text.trim_matches(|it: char| it.is_ascii_digit()) == group.to_string().trim()
            });
            texts
                .map(|(at, text)| (at, text.clone()))
                .collect::<Vec<_>>()
        };
        for (group, jobs) in [('a', 4), ('b', 4), (' ', 5), ('c', 1)] {
            let of_group = of(group);
            assert_eq!(of_group.len(), jobs, "{got:?}");
            assert!(
                of_group.is_sorted_by_key(|(_, text)| text.clone()),
                "{got:?}"
            );
            // At most one job of each other group is between two of a group.
            let is_fair = |pair: &[(usize, String)]| pair[1].0 - pair[0].0 <= 4;
            assert!(of_group.windows(2).all(is_fair), "{batch}: {got:?}");
            assert!(of_group[0].0 < 4, "{batch}: {got:?}");
        }
        consistency::check(&f.redis.url()).await;
    }
}

#[tokio::test]
async fn a_group_with_many_jobs_delays_others_by_one_job_of_each() {
    const GROUPS: usize = 64;
    let f = fixture().await;
    let store = f.store.at(START);
    for _ in 0..10 {
        let jobs = vec![grouped("big", "big", 0); 64];
        let _ = store.publish(&f.queue, &jobs, None).await.unwrap();
    }
    for group in 1..GROUPS {
        let _ = f.publish_grouped("small", &format!("small {group}")).await;
    }
    let mut got = Vec::new();
    for _ in 0..=GROUPS {
        got.extend(f.reserve(START, 1, 1000).await);
    }
    let small = got.iter().filter(|text| *text == "small").count();
    assert_eq!(small, GROUPS - 1, "{got:?}");
}

#[tokio::test]
async fn no_more_jobs_of_a_group_run_than_its_limit_allows() {
    let f = fixture().await;
    for number in 0..3 {
        for group in ["a", "b", ""] {
            f.publish_grouped(&format!("{group}{number}"), group).await;
        }
    }
    // Also across priorities.
    f.publish(START, grouped("a-urgent", "a", 4)).await;
    let first = f.take(START, 64, limited(1)).await;
    let texts: Vec<_> = first.iter().map(text_of).collect();
    assert_eq!(texts, ["a-urgent", "b0", "0", "1", "2"]);
    assert_eq!(
        f.take_texts(START, 64, limited(1)).await,
        Vec::<String>::new()
    );
    assert_eq!(f.held_for(), Some(1));
    consistency::check(&f.redis.url()).await;
    // Each end of a lease gives the group its turn back.
    let store = f.store.at(START);
    let _ = store
        .ack(&f.queue, first[0].id, Some(first[0].attempt))
        .await
        .unwrap();
    let released = store.release_all(&f.queue, &[lease_of(&first[1])], 0).await;
    let _ = released.unwrap();
    assert_eq!(f.take_texts(START, 64, limited(1)).await, ["a0", "b0"]);
    f.move_due(START + 2000).await;
    // The two leases have expired, and the jobs are behind others of their groups.
    assert_eq!(
        f.take_texts(START + 2000, 2, limited(1)).await,
        ["a1", "b1"]
    );
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_job_that_awaits_its_retry_does_not_block_its_group() {
    let f = fixture().await;
    let ends = ["retry", "dead", "cancel", "ack"];
    for number in 0..=ends.len() {
        f.publish_grouped(&number.to_string(), "a").await;
    }
    for (number, end) in ends.into_iter().enumerate() {
        let taken = f.take(START, 8, limited(1)).await;
        let [job] = &taken[..] else {
            panic!("{taken:?}")
        };
        assert_eq!(text_of(job), number.to_string());
        let store = f.store.at(START);
        let fails = async |then| {
            let failed = FailRequest {
                job: lease_of(job),
                then,
                error: "x".into(),
            };
            let policy = RetryPolicy::default();
            let _ = store.fail_all(&f.queue, &[failed], &policy).await.unwrap();
        };
        match end {
            "retry" => fails(AfterFailure::RetryInMs(10)).await,
            "dead" => fails(AfterFailure::Bury).await,
            "cancel" => drop(
                store
                    .cancel(&f.queue, job.id, IfRunning::Revoke)
                    .await
                    .unwrap(),
            ),
            _ => drop(store.ack(&f.queue, job.id, None).await.unwrap()),
        }
        consistency::check(&f.redis.url()).await;
    }
    f.move_due(START + 20).await;
    assert_eq!(f.take_texts(START + 20, 8, limited(2)).await, ["4", "0"]);
}

#[tokio::test]
async fn a_waiting_process_is_rung_when_a_full_group_has_a_place_again() {
    let f = fixture().await;
    f.publish_grouped("1", "a").await;
    let running = f.take(START, 1, limited(1)).await;
    f.publish_grouped("2", "a").await;
    let mut process = WaitingProcess::start(&f).await;
    let options = ReserveOptions {
        registers: true,
        ..limited(1)
    };
    let (store, claims) = (process.store.at(START), [Claim::new(1, 1000)]);
    let reserved = store
        .reserve_with(&f.queue, &claims, options)
        .await
        .unwrap();
    assert!(reserved.jobs[0].is_empty() && reserved.is_registered);
    f.publish(START + 500, grouped("3", "a", 0)).await;
    assert!(process.is_quiet().await, "the group is full");
    let _ = f
        .store
        .at(START)
        .ack(&f.queue, running[0].id, None)
        .await
        .unwrap();
    process.rang_for(&f.queue).await;
    assert_eq!(f.take_texts(START, 8, limited(1)).await, ["2"]);
    let reserved = store
        .reserve_with(&f.queue, &claims, options)
        .await
        .unwrap();
    assert!(reserved.is_registered);
    f.publish_grouped("other", "b").await;
    process.rang_for(&f.queue).await;
    // A poll of another process finds no job that may be leased either.
    assert_eq!(f.take_texts(START, 8, limited(1)).await, ["other"]);
    let queue = PolledQueue {
        queue: &f.queue,
        group_max_running: Some(1),
    };
    let polled = store.poll(0, [queue].into_iter()).await.unwrap();
    assert_eq!(polled, [false]);
}

#[tokio::test]
async fn lines_that_are_held_come_back_when_the_limit_changes() {
    for (limit, expected) in [
        (limited(3), &["a2", "b2"][..]),
        (ReserveOptions::default(), &["a2", "b2", "a3", "b3"]),
    ] {
        let f = fixture().await;
        for number in 0..4 {
            for group in ["a", "b"] {
                f.publish_grouped(&format!("{group}{number}"), group).await;
            }
        }
        assert_eq!(f.take_texts(START, 64, limited(2)).await.len(), 4);
        assert_eq!(f.take_texts(START, 64, limited(1)).await.len(), 0);
        assert_eq!(f.take_texts(START, 64, limit).await, expected);
        consistency::check(&f.redis.url()).await;
    }
}

#[tokio::test]
async fn another_version_of_a_job_may_have_another_group() {
    let f = fixture().await;
    let publish = async |body: &str, group: &str| {
        let mut job = f.keyed("k", IfExists::Replace, body, 0);
        let native = job.job.native.as_mut().unwrap();
        native.extension.group_hash = Some(GroupHash::of(group));
        f.publish_keyed(START, job).await
    };
    publish("1", "a").await;
    publish("2", "b").await;
    let running = f.take(START, 8, limited(1)).await;
    assert_eq!(text_of(&running[0]), "2");
    publish("3", "c").await;
    consistency::check(&f.redis.url()).await;
    let store = f.store.at(START);
    let _ = store.ack(&f.queue, running[0].id, Some(1)).await.unwrap();
    consistency::check(&f.redis.url()).await;
    f.publish_grouped("b", "b").await;
    assert_eq!(f.take_texts(START, 8, limited(1)).await, ["3", "b"]);
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_change_of_the_priority_keeps_the_group() {
    let f = fixture().await;
    f.publish_grouped("a0", "a").await;
    let raised = f.publish_grouped("a1", "a").await;
    let change = JobChange {
        priority: Some(Priority::MAX),
        ..JobChange::default()
    };
    let store = f.store.at(START);
    let _ = store.change(&f.queue, raised, change).await.unwrap();
    consistency::check(&f.redis.url()).await;
    assert_eq!(f.take_texts(START, 8, limited(1)).await, ["a1"]);
    let _ = store.ack(&f.queue, raised, None).await.unwrap();
    assert_eq!(f.take_texts(START, 8, limited(1)).await, ["a0"]);
}

#[tokio::test]
async fn a_list_of_ready_jobs_has_the_jobs_of_all_groups() {
    let f = fixture().await;
    let mut published = Vec::new();
    for number in 0..60_usize {
        let group = ["a", "b", "c", ""][number % 4];
        let job = grouped("x", group, (number % 3) as u8);
        published.push(f.publish(START, job).await);
    }
    // Some lines are held.
    let leased: Vec<JobId> = f
        .take(START, 4, limited(1))
        .await
        .iter()
        .map(|it| it.id)
        .collect();
    published.retain(|id| !leased.contains(id));
    for hints in [1, 7, 100] {
        let listed = f.list_ready(hints).await;
        assert_eq!(listed, published, "{hints} hints a call");
    }
}

#[tokio::test]
async fn explain_says_which_groups_take_turns_and_how_many_jobs_of_its_group_run() {
    let f = fixture().await;
    let first = f.publish_grouped("a0", "a").await;
    let id = f.publish_grouped("a1", "a").await;
    f.publish_grouped("b0", "b").await;
    f.publish_grouped("none", "").await;
    let store = f.store.at(START);
    let explain = async |id: JobId| store.explain(&f.queue, id).await.unwrap().unwrap();
    let found = explain(id).await;
    assert_eq!((found.before.most, found.leased_of_group), (1, Some(0)));
    assert_eq!(
        found.other_lines, 1,
        "the first line has a turn from the next reserve on"
    );
    assert_eq!(f.take(START, 1, limited(1)).await[0].id, first);
    assert_eq!(f.take_texts(START, 1, limited(1)).await, ["b0"]);
    let found = explain(id).await;
    assert_eq!((found.before.most, found.leased_of_group), (0, Some(1)));
}

#[tokio::test]
async fn nothing_is_left_of_groups_whose_jobs_have_ended() {
    for ends in ["purged", "taken", "cancelled"] {
        let f = fixture().await;
        let mut ids = Vec::new();
        for number in 0..300_u16 {
            let job = grouped("x", &number.to_string(), (number % 5) as u8);
            ids.push(f.publish(START, job).await);
        }
        let store = f.store.at(START);
        match ends {
            "purged" => assert_eq!(store.purge_ready(&f.queue).await.unwrap(), 300),
            "taken" => {
                assert_eq!(f.take(START, 256, limited(1)).await.len(), 256);
                assert_eq!(f.take(START, 256, limited(1)).await.len(), 44);
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
        for later in [70_000, 72_000, 74_000, 76_000, 140_000, 210_000, 280_000] {
            f.sweep(START + later).await;
        }
        assert!(all_queues(&f.store).await.is_empty(), "{ends}");
        assert_eq!(f.keys_of_jobs(), Vec::<String>::new(), "{ends}");
        consistency::check(&f.redis.url()).await;
    }
}

/// An audit waits for the pump of the lock, which is not on the roster.
#[tokio::test]
async fn an_audit_repairs_the_counts_and_turns_of_groups() {
    join_all(["running", "too many", "turns", "held"].map(repairs)).await;
}

async fn repairs(damage: &str) {
    let f = fixture().await;
    for number in 0..3 {
        f.publish_grouped(&format!("a{number}"), "a").await;
    }
    let running = f.take(START, 1, limited(1)).await;
    assert_eq!(f.take(START, 1, limited(1)).await, []);
    let group = GroupHash::of("a");
    let (mut connection, line) = (f.connection(), format!(":0:{group}"));
    let mut harm = redis::cmd(match damage {
        "running" | "turns" => "DEL",
        "too many" => "HSET",
        _ => "ZADD",
    });
    match damage {
        "running" => harm.arg(key("running:1")),
        "too many" => harm.arg(key("running:1")).arg(group.to_string()).arg(7),
        "turns" => harm.arg(key("turns:1")),
        _ => harm.arg(key("turns:1")).arg(1_u64 << 51).arg(&line),
    };
    harm.exec(&mut connection).unwrap();
    if damage == "held" {
        // As if the end of the lease had not given the turn back.
        let store = f.store.at(START);
        let _ = store.ack(&f.queue, running[0].id, None).await.unwrap();
        harm.exec(&mut connection).unwrap();
    }
    let (_, found) = audit(&f, true).await;
    assert!(
        found.iter().all(|found| found.repaired),
        "{damage}: {found:?}"
    );
    let expected = |defect: &Inconsistency| match defect {
        Inconsistency::WrongGroupCounts { groups, .. } => *groups == 1,
        Inconsistency::BadTurn { line } => line.group == Some(group),
        _ => false,
    };
    assert!(
        found.iter().any(|found| expected(&found.defect)),
        "{damage}: {found:?}"
    );
    assert_eq!(audit(&f, false).await.1, [], "{damage}");
    consistency::check(&f.redis.url()).await;
    let store = f.store.at(START);
    let _ = store.ack(&f.queue, running[0].id, None).await.unwrap();
    assert_eq!(f.take_texts(START, 1, limited(1)).await, ["a1"], "{damage}");
}
