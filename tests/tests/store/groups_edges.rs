//! Groups at their edges: many of them, limits that processes know differently, stale and damaged data.

use tidegate_core::{IfRunning, JobId, NewJob};
use tidegate_store::{PolledQueue, ReserveOptions};
use tidegate_testkit::consistency;

use crate::audit::audit;
use crate::fixture::{START, StoreFixture, fixture};
use crate::groups::{grouped, limited, text_of};
use crate::largest_calls::short;
use crate::waiting_process::WaitingProcess;

fn key(name: &str) -> String {
    format!("tg:0:{{8209}}:{name}")
}

/// How often commands were called, and the scripts among them.
fn commands(f: &StoreFixture) -> (u64, u64) {
    let info: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut f.connection())
        .unwrap();
    let (mut all, mut scripts) = (0, 0);
    for line in info.lines() {
        let Some((command, calls)) = line.split_once(":calls=") else {
            continue;
        };
        let calls: u64 = calls.split(',').next().unwrap().parse().unwrap();
        all += calls;
        scripts += if command == "cmdstat_evalsha" {
            calls
        } else {
            0
        };
    }
    (all, scripts)
}

impl StoreFixture {
    /// Publishes a job of each group with this number.
    async fn publish_to_groups(&self, groups: std::ops::Range<u32>, priority: u8) -> Vec<JobId> {
        let jobs: Vec<NewJob> = groups
            .map(|group| grouped("x", &group.to_string(), priority))
            .collect();
        self.publish_many(&jobs).await
    }

    async fn publish_many(&self, jobs: &[NewJob]) -> Vec<JobId> {
        let (store, mut ids) = (self.store.at(START), Vec::new());
        for jobs in jobs.chunks(64) {
            ids.extend(store.publish(&self.queue, jobs, None).await.unwrap());
        }
        ids
    }

    async fn cancel_all(&self, ids: &[JobId]) {
        let store = self.store.at(START);
        for id in ids {
            let cancelled = store.cancel(&self.queue, *id, IfRunning::Refuse).await;
            let _ = cancelled.unwrap();
        }
    }

    async fn take_all(&self, jobs: usize, options: ReserveOptions) {
        let mut taken = 0;
        while taken < jobs {
            let got = self.take(START, 256, options).await.len();
            assert!(got > 0, "{taken} of {jobs}");
            taken += got;
        }
    }

    fn has_turns(&self) -> bool {
        let mut exists = redis::cmd("EXISTS");
        exists
            .arg(key("turns:1"))
            .query(&mut self.connection())
            .unwrap()
    }
}

#[tokio::test]
async fn a_full_group_costs_its_priority_no_place() {
    const FULL: u32 = 10;
    let f = fixture().await;
    f.publish_to_groups(0..FULL, 2).await;
    f.take_all(FULL as usize, limited(1)).await;
    f.publish_to_groups(0..FULL, 2).await;
    f.publish(START, grouped("free", "free", 2)).await;
    for (priority, jobs) in [(4, 60), (0, 20)] {
        let others = vec![grouped("other", "", priority); jobs];
        f.publish_many(&others).await;
    }
    let mut got = Vec::new();
    for _ in 0..40 {
        got.extend(f.take(START, 1, limited(1)).await.iter().map(text_of));
    }
    assert!(got.iter().any(|text| text == "free"), "{got:?}");
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn processes_that_know_different_limits_do_not_undo_each_others_work() {
    const GROUPS: u32 = 300;
    let f = fixture().await;
    for _ in 0..3 {
        f.publish_to_groups(0..GROUPS, 0).await;
    }
    f.take_all(2 * GROUPS as usize, limited(2)).await;
    assert_eq!(f.take(START, 1, limited(2)).await, []);
    f.publish(START, grouped("free", "free", 0)).await;
    let (before, _) = commands(&f);
    let got = f.take(START, 1, limited(1)).await;
    assert_eq!(got.iter().map(text_of).collect::<Vec<_>>(), ["free"]);
    let used = commands(&f).0 - before;
    assert!(
        used < 60,
        "{used} commands: a group that is full for 2 is full for 1"
    );
    // A higher limit finds them, and each call takes jobs meanwhile.
    f.take_all(GROUPS as usize, limited(3)).await;
    consistency::check(&f.redis.url()).await;
}

/// A call gives back some hundred turns. Groups that are full again meanwhile must not hide the others.
#[tokio::test]
async fn a_higher_limit_gives_all_of_many_groups_their_turns_back() {
    const GROUPS: u32 = 300;
    let f = fixture().await;
    for _ in 0..4 {
        f.publish_to_groups(0..GROUPS, 0).await;
    }
    for limit in 1..=3 {
        f.take_all(GROUPS as usize, limited(limit)).await;
        for _ in 0..3 {
            assert_eq!(f.take(START, 256, limited(limit)).await, []);
        }
        let (before, _) = commands(&f);
        assert_eq!(f.take(START, 256, limited(limit)).await, []);
        let used = commands(&f).0 - before;
        assert!(used < 60, "{used} commands: no turn is given back again");
    }
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_poll_finds_lines_that_are_held_for_a_lower_limit() {
    let f = fixture().await;
    for _ in 0..2 {
        f.publish_to_groups(0..1, 0).await;
    }
    assert_eq!(f.take(START, 8, limited(1)).await.len(), 1);
    let mut other = WaitingProcess::start(&f).await;
    let poll = async |group_max_running| {
        let queue = PolledQueue {
            queue: &f.queue,
            group_max_running,
        };
        let polled = other.store.at(START).poll(0, [queue].into_iter()).await;
        polled.unwrap()
    };
    assert_eq!(poll(Some(1)).await, [false]);
    assert_eq!(poll(Some(5)).await, [true]);
    assert_eq!(poll(None).await, [true]);
    // A process that knows the lower limit only leaves: the other one may know another.
    let leaving = WaitingProcess::start(&f).await;
    let store = leaving.store.at(START);
    store.withdraw(0, [&f.queue].into_iter()).await.unwrap();
    other.rang_for(&f.queue).await;
}

#[tokio::test]
async fn stale_lines_go_from_a_queue_with_jobs_in_other_states() {
    let f = fixture().await;
    let later = NewJob {
        delay_ms: 3_600_000,
        ..grouped("later", "", 0)
    };
    f.publish(START, later).await;
    let ids = f.publish_to_groups(0..300, 0).await;
    f.cancel_all(&ids).await;
    assert!(f.has_turns());
    for second in 0..6 {
        f.sweep(START + 61_000 + 1000 * second).await;
    }
    assert!(!f.has_turns());
    assert!(f.keys_of_jobs().iter().all(|key| !key.contains("ready:")));
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_purge_takes_many_lines_in_a_call() {
    let f = fixture().await;
    f.publish_to_groups(0..300, 0).await;
    let (_, before) = commands(&f);
    assert_eq!(f.store.at(START).purge_ready(&f.queue).await.unwrap(), 300);
    let calls = commands(&f).1 - before;
    assert!(calls < 10, "{calls} calls");
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn expired_and_cancelled_jobs_of_many_groups_hold_up_no_call() {
    const GROUPS: u32 = 200;
    let f = fixture().await;
    let expiring: Vec<NewJob> = (0..GROUPS)
        .map(|group| NewJob {
            ttl_ms: 1000,
            ..grouped("x", &group.to_string(), 0)
        })
        .collect();
    f.publish_many(&expiring).await;
    let heads = f.publish_to_groups(0..GROUPS, 0).await;
    for _ in 0..100 {
        f.publish_to_groups(0..GROUPS, 0).await;
    }
    short(&f, "sweep of 200 groups", f.sweep(START + 3000)).await;
    f.cancel_all(&heads).await;
    let taking = f.take(START + 3000, 256, limited(2));
    let taken = short(&f, "reserve of 200 groups", taking).await;
    assert_eq!(taken.len(), 256);
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_damaged_limit_of_lines_that_are_held_strands_no_job() {
    for options in [limited(2), ReserveOptions::default()] {
        let f = fixture().await;
        for _ in 0..2 {
            f.publish_to_groups(0..1, 0).await;
        }
        assert_eq!(f.take(START, 8, limited(1)).await.len(), 1);
        let mut harm = redis::cmd("HSET");
        harm.arg(key("q:1")).arg("held_for").arg("x");
        harm.exec(&mut f.connection()).unwrap();
        assert_eq!(f.take(START, 8, options).await.len(), 1);
        audit(&f, true).await;
        assert_eq!(audit(&f, false).await.1, []);
    }
}

#[tokio::test]
async fn an_audit_corrects_the_counts_of_many_groups() {
    let f = fixture().await;
    f.publish_to_groups(0..1, 0).await;
    let mut harm = redis::cmd("HSET");
    harm.arg(key("running:1"));
    for group in 1..1200 {
        harm.arg(format!("17:{group}")).arg(3);
    }
    harm.exec(&mut f.connection()).unwrap();
    let (_, found) = audit(&f, true).await;
    assert!(found.iter().all(|found| found.repaired), "{found:?}");
    assert_eq!(audit(&f, false).await.1, []);
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_released_job_is_the_next_of_its_group() {
    let f = fixture().await;
    for body in ["0", "1"] {
        for group in ["a", "b"] {
            f.publish(START, grouped(&format!("{group}{body}"), group, 0))
                .await;
        }
    }
    let first = f.take(START, 1, limited(1)).await.remove(0);
    let released = tidegate_store::LeasedJob {
        id: first.id,
        attempt: first.attempt,
    };
    let store = f.store.at(START);
    let _ = store.release_all(&f.queue, &[released], 0).await.unwrap();
    let got = f.take(START, 8, limited(4)).await;
    let texts: Vec<_> = got.iter().map(text_of).collect();
    assert_eq!(texts, ["b0", "a0", "b1", "a1"]);
}
