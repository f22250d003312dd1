//! The table of policies, and the limit on the number of jobs in the script that publishes.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::{Pause, QueueKey, QueuePolicy};
use tidegate_store::{
    Claim, Policies, PolicyChanges, PolicyRevision, PolicySetOutcome, PublishOutcome, Store,
    StoreConfig, StoredPolicy,
};
use tidegate_testkit::{RedisOptions, consistency, print_figure, seed};

use crate::fixture::{StoreFixture, all_queues, delayed, fixture, fixture_on_cluster, job};

fn queue(number: usize) -> QueueKey {
    QueueKey::try_from(format!("shop/q{number}").as_str()).unwrap()
}

fn limited(max_jobs: u64) -> QueuePolicy {
    QueuePolicy {
        max_jobs: Some(max_jobs),
        ..QueuePolicy::default()
    }
}

async fn set(policies: &Policies, queue: &QueueKey, policy: &QueuePolicy) -> PolicyRevision {
    match policies.set(queue, policy, None).await.unwrap() {
        PolicySetOutcome::Done(revision) => revision,
        PolicySetOutcome::VersionMismatch(_) => panic!("no revision was expected"),
    }
}

/// What a reader knows, as an API follows the table.
#[derive(Default)]
struct Reader {
    last: Option<PolicyRevision>,
    entries: BTreeMap<QueueKey, StoredPolicy>,
    whole_reads: usize,
}

impl Reader {
    /// Reads the changes; returns how many entries were read.
    async fn read(&mut self, policies: &Policies) -> usize {
        match policies.changes_since(self.last).await.unwrap() {
            PolicyChanges::None => 0,
            PolicyChanges::Some { entries, last } => {
                self.last = Some(last);
                let count = entries.len();
                self.entries.extend(entries);
                self.entries.retain(|_, entry| !entry.is_none());
                count
            }
            PolicyChanges::All { entries, last } => {
                self.last = Some(last);
                self.whole_reads += 1;
                self.entries = entries;
                self.entries.len()
            }
        }
    }

    fn limits(&self) -> Vec<(String, Option<u64>)> {
        let entries = self.entries.iter();
        let limit = |(queue, entry): (&QueueKey, &StoredPolicy)| {
            (queue.queue.to_string(), entry.policy.max_jobs)
        };
        entries.map(limit).collect()
    }
}

fn limits(pairs: &[(&str, u64)]) -> Vec<(String, Option<u64>)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, jobs)| ((*name).to_owned(), Some(*jobs)))
        .collect()
}

#[tokio::test]
async fn a_policy_is_set_compared_and_removed() {
    for f in [fixture().await, fixture_on_cluster().await] {
        let policies = f.store.policies();
        assert_eq!(
            policies.get(&f.queue).await.unwrap(),
            StoredPolicy::default()
        );
        let first = set(&policies, &f.queue, &limited(5)).await;
        let stored = policies.get(&f.queue).await.unwrap();
        assert_eq!((stored.policy, stored.revision), (limited(5), first));
        let none = PolicyRevision::default();
        for wrong in [
            none,
            "1.00000000".parse().unwrap(),
            "9.12345678".parse().unwrap(),
        ] {
            let refused = policies.set(&f.queue, &limited(6), Some(wrong)).await;
            assert_eq!(
                refused.unwrap(),
                PolicySetOutcome::VersionMismatch(Some(first))
            );
        }
        assert_eq!(policies.get(&f.queue).await.unwrap().policy, limited(5));
        let second = policies
            .set(&f.queue, &limited(6), Some(first))
            .await
            .unwrap();
        let PolicySetOutcome::Done(second) = second else {
            panic!("{second:?}");
        };
        assert!(second > first);
        // A policy that equals the defaults is removed; then only "no policy" is its revision.
        let removed = policies
            .set(&f.queue, &QueuePolicy::default(), Some(second))
            .await;
        assert_eq!(removed.unwrap(), PolicySetOutcome::Done(none));
        assert_eq!(
            policies.get(&f.queue).await.unwrap(),
            StoredPolicy::default()
        );
        let refused = policies
            .set(&f.queue, &limited(7), Some(second))
            .await
            .unwrap();
        assert_eq!(refused, PolicySetOutcome::VersionMismatch(Some(none)));
        let created = policies
            .set(&f.queue, &limited(7), Some(none))
            .await
            .unwrap();
        assert!(matches!(created, PolicySetOutcome::Done(revision) if revision > second));
        // A policy creates no queue.
        assert!(all_queues(&f.store).await.is_empty());
    }
}

#[tokio::test]
async fn of_concurrent_changes_with_the_same_expected_revision_one_succeeds() {
    let f = fixture().await;
    let policies = f.store.policies();
    for _ in 0..20 {
        let before = policies.get(&f.queue).await.unwrap().revision;
        let attempts = (1..=8).map(|jobs| {
            let (policies, queue) = (policies.clone(), f.queue.clone());
            tokio::spawn(async move {
                let set = policies.set(&queue, &limited(jobs), Some(before)).await;
                (jobs, set.unwrap())
            })
        });
        let mut done = Vec::new();
        for attempt in attempts.collect::<Vec<_>>() {
            if let (jobs, PolicySetOutcome::Done(revision)) = attempt.await.unwrap() {
                done.push((jobs, revision));
            }
        }
        let stored = policies.get(&f.queue).await.unwrap();
        let [(jobs, revision)] = done[..] else {
            panic!("{done:?}");
        };
        assert_eq!((stored.policy, stored.revision), (limited(jobs), revision));
    }
}

#[tokio::test]
async fn readers_read_only_what_has_changed() {
    let f = fixture().await;
    let (policies, mut reader) = (f.store.policies(), Reader::default());
    assert_eq!(reader.read(&policies).await, 0);
    for number in 0..30 {
        set(&policies, &queue(number), &limited(1)).await;
    }
    assert_eq!(reader.read(&policies).await, 30);
    let whole_reads = reader.whole_reads;
    assert_eq!(reader.read(&policies).await, 0);
    set(&policies, &queue(3), &limited(2)).await;
    set(&policies, &queue(4), &limited(3)).await;
    set(&policies, &queue(3), &limited(4)).await;
    set(&policies, &queue(5), &QueuePolicy::default()).await;
    assert_eq!(reader.read(&policies).await, 3);
    assert_eq!(reader.entries[&queue(3)].policy, limited(4));
    assert_eq!(reader.entries[&queue(4)].policy, limited(3));
    assert!(!reader.entries.contains_key(&queue(5)));
    assert_eq!(reader.entries.len(), 29);
    // What is not there cannot be removed, and is no change.
    set(&policies, &queue(5), &QueuePolicy::default()).await;
    assert_eq!(reader.read(&policies).await, 0);
    assert_eq!(reader.whole_reads, whole_reads);
}

#[tokio::test]
async fn a_reader_that_knows_too_little_reads_everything_in_pages() {
    let f = fixture().await;
    let (policies, mut reader) = (f.store.policies(), Reader::default());
    set(&policies, &queue(0), &limited(1)).await;
    reader.read(&policies).await;
    for number in 0..1700 {
        set(&policies, &queue(number), &limited(7)).await;
    }
    let before = reader.whole_reads;
    assert_eq!(reader.read(&policies).await, 1700);
    assert_eq!(reader.whole_reads, before + 1);
    assert!(
        reader
            .entries
            .values()
            .all(|entry| entry.policy == limited(7))
    );
    // Only the last changes stay listed.
    let fields: u64 = redis::cmd("HLEN")
        .arg("tg:policies")
        .query(&mut f.connection())
        .unwrap();
    assert_eq!(fields, 1 + 1700 + 500);
    // As many changes as are listed, behind one that is listed too.
    for number in 0..499 {
        set(&policies, &queue(number), &limited(8)).await;
    }
    assert_eq!(reader.read(&policies).await, 499);
    assert_eq!(reader.whole_reads, before + 1);
    for number in 0..500 {
        set(&policies, &queue(number), &limited(9)).await;
    }
    assert_eq!(reader.read(&policies).await, 1700);
    assert_eq!(reader.whole_reads, before + 2);
}

#[tokio::test]
async fn changes_that_a_failover_lost_are_taken_back() {
    let f = fixture().await;
    let (policies, mut reader) = (f.store.policies(), Reader::default());
    set(&policies, &queue(1), &limited(1)).await;
    let saved: Vec<u8> = redis::cmd("DUMP")
        .arg("tg:policies")
        .query(&mut f.connection())
        .unwrap();
    let restore = || {
        let mut restore = redis::cmd("RESTORE");
        restore
            .arg("tg:policies")
            .arg(0)
            .arg(saved.clone())
            .arg("REPLACE");
        restore.exec(&mut f.connection()).unwrap();
    };
    set(&policies, &queue(1), &limited(2)).await;
    set(&policies, &queue(2), &limited(2)).await;
    reader.read(&policies).await;
    assert_eq!(reader.limits(), limits(&[("q1", 2), ("q2", 2)]));
    // The table has an earlier revision than the reader.
    restore();
    reader.read(&policies).await;
    assert_eq!(reader.limits(), limits(&[("q1", 1)]));
    // As many other changes follow, and more.
    for others in [2, 5] {
        set(&policies, &queue(1), &limited(3)).await;
        set(&policies, &queue(2), &limited(3)).await;
        reader.read(&policies).await;
        restore();
        for number in 0..others {
            set(&policies, &queue(10 + number), &limited(4)).await;
        }
        reader.read(&policies).await;
        assert_eq!(reader.entries[&queue(1)].policy, limited(1), "{others}");
        assert!(!reader.entries.contains_key(&queue(2)), "{others}");
        assert_eq!(reader.entries.len(), 1 + others);
        restore();
        reader.read(&policies).await;
    }
    let _: () = redis::cmd("DEL")
        .arg("tg:policies")
        .query(&mut f.connection())
        .unwrap();
    reader.read(&policies).await;
    assert_eq!(reader.limits(), []);
    assert_eq!(reader.read(&policies).await, 0);
}

#[tokio::test]
async fn damaged_entries_are_the_defaults_and_others_are_read() {
    let f = fixture().await;
    let policies = f.store.policies();
    let good = set(&policies, &queue(1), &limited(1)).await;
    let damaged = [
        ("shop/a", "garbage"),
        ("shop/b", "1.00000000 2 paused"),
        ("shop/c", "1.00000000 1 max_jobs=x"),
        ("shop/d", ""),
        ("shop/e", "7 1 paused"),
        ("no-queue", "1.00000000 1 paused"),
    ];
    let mut write = redis::cmd("HSET");
    write.arg("tg:policies");
    for (name, text) in damaged {
        write.arg(name).arg(text);
    }
    write.exec(&mut f.connection()).unwrap();
    let mut reader = Reader::default();
    reader.read(&policies).await;
    assert_eq!(reader.entries.len(), 6);
    assert_eq!(reader.entries[&queue(1)].revision, good);
    for (name, text) in &damaged[..5] {
        let name = QueueKey::try_from(*name).unwrap();
        let entry = &reader.entries[&name];
        assert_eq!(entry.policy, QueuePolicy::default());
        assert_eq!(entry.unreadable.as_deref(), Some(*text));
        // A damaged policy has no revision that could be expected, and can be replaced.
        let refused = policies
            .set(&name, &limited(3), Some(PolicyRevision::default()))
            .await;
        assert!(matches!(
            refused.unwrap(),
            PolicySetOutcome::VersionMismatch(_)
        ));
        set(&policies, &name, &limited(3)).await;
        assert_eq!(policies.get(&name).await.unwrap().policy, limited(3));
    }
    // A damaged last revision is replaced by the next change.
    let mut damage = redis::cmd("HSET");
    damage.arg("tg:policies").arg("#").arg("garbage");
    damage.exec(&mut f.connection()).unwrap();
    reader.read(&policies).await;
    assert_eq!(reader.last, Some(PolicyRevision::default()));
    assert_eq!(reader.read(&policies).await, 0);
    set(&policies, &queue(1), &limited(9)).await;
    reader.read(&policies).await;
    assert_eq!(reader.entries[&queue(1)].policy, limited(9));
    assert_eq!(reader.read(&policies).await, 0);
}

#[tokio::test]
async fn a_table_of_another_type_is_an_error_and_jobs_are_served() {
    let f = fixture().await;
    redis::cmd("SET")
        .arg("tg:policies")
        .arg("x")
        .exec(&mut f.connection())
        .unwrap();
    let policies = f.store.policies();
    assert!(policies.changes_since(None).await.is_err());
    assert!(policies.get(&f.queue).await.is_err());
    assert!(policies.set(&f.queue, &limited(1), None).await.is_err());
    f.store.publish(&f.queue, &[job("a")], None).await.unwrap();
    assert_eq!(f.counts().await, [0, 1, 0, 0]);
}

#[tokio::test]
async fn an_invalid_policy_is_not_sent() {
    let f = fixture().await;
    let policies = f.store.policies();
    assert!(policies.set(&f.queue, &limited(0), None).await.is_err());
    assert_eq!(
        policies.get(&f.queue).await.unwrap(),
        StoredPolicy::default()
    );
}

#[tokio::test]
async fn a_queue_is_paused_at_maxmemory() {
    let f = fixture().await;
    redis::cmd("CONFIG")
        .arg("SET")
        .arg("maxmemory")
        .arg("1")
        .exec(&mut f.connection())
        .unwrap();
    assert!(f.store.publish(&f.queue, &[job("a")], None).await.is_err());
    let paused = QueuePolicy {
        pause: Pause::UntilResumed,
        ..QueuePolicy::default()
    };
    let policies = f.store.policies();
    set(&policies, &f.queue, &paused).await;
    assert_eq!(policies.get(&f.queue).await.unwrap().policy, paused);
}

async fn publish(f: &StoreFixture, jobs: usize, max_jobs: u64) -> Result<usize, u64> {
    let jobs = vec![delayed("x", 60_000); jobs];
    match f
        .store
        .try_publish(&f.queue, &jobs, None, Some(max_jobs))
        .await
        .unwrap()
    {
        PublishOutcome::Stored(published) => Ok(published.ids.len()),
        PublishOutcome::QueueFull { room } => Err(room),
        PublishOutcome::LaneClosed => panic!("the lane is closed"),
    }
}

#[tokio::test]
async fn jobs_of_all_states_count_and_a_publish_is_stored_as_a_whole_or_not_at_all() {
    let f = fixture().await;
    assert_eq!(publish(&f, 4, 3).await, Err(3));
    assert!(
        all_queues(&f.store).await.is_empty(),
        "a refused publish created the queue"
    );
    assert_eq!(publish(&f, 2, 6).await, Ok(2));
    // One that is dead, one that is leased, one that is ready.
    for body in ["dead", "leased"] {
        f.store.publish(&f.queue, &[job(body)], None).await.unwrap();
    }
    let claim = Claim::new(1, 1);
    let _ = f.store.reserve(&f.queue, &[claim]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let now: (u64, u64) = redis::cmd("TIME").query(&mut f.connection()).unwrap();
    f.move_due(now.0 * 1000 + now.1 / 1000).await;
    let claim = Claim::new(1, 60_000);
    let _ = f.store.reserve(&f.queue, &[claim]).await.unwrap();
    f.store
        .publish(&f.queue, &[job("ready")], None)
        .await
        .unwrap();
    assert_eq!(f.counts().await, [2, 1, 1, 1]);
    assert_eq!(publish(&f, 2, 6).await, Err(1));
    assert_eq!(publish(&f, 1, 5).await, Err(0));
    assert_eq!(publish(&f, 1, 2).await, Err(0), "the limit was lowered");
    assert_eq!(publish(&f, 1, 6).await, Ok(1));
    assert_eq!(f.counts().await, [3, 1, 1, 1]);
    f.store.purge_dead(&f.queue, 10).await.unwrap();
    assert_eq!(publish(&f, 1, 6).await, Ok(1));
    assert_eq!(publish(&f, 1, 6).await, Err(0));
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn a_full_queue_takes_a_job_in_the_place_of_another() {
    let f = fixture().await;
    let old = f
        .store
        .publish(&f.queue, &[delayed("old", 60_000)], None)
        .await
        .unwrap()[0];
    let new = [job("new")];
    let replaced = f
        .store
        .try_publish(&f.queue, &new, Some(old), Some(1))
        .await
        .unwrap();
    assert!(replaced.stored().is_some());
    // It is gone, so nothing makes room.
    let refused = f
        .store
        .try_publish(&f.queue, &new, Some(old), Some(1))
        .await
        .unwrap();
    assert!(
        matches!(refused, PublishOutcome::QueueFull { room: 0 }),
        "{refused:?}"
    );
    assert_eq!(f.counts().await, [0, 1, 0, 0]);
    // A refused replacement keeps the old job.
    let held = f
        .store
        .publish(&f.queue, &[delayed("held", 60_000)], None)
        .await
        .unwrap()[0];
    let refused = f
        .store
        .try_publish(&f.queue, &new, Some(held), Some(1))
        .await
        .unwrap();
    assert!(refused.stored().is_none());
    assert!(f.store.peek_job(&f.queue, held).await.unwrap().is_some());
    consistency::check(&f.redis.url()).await;
}

#[tokio::test]
async fn damaged_counts_make_the_limit_inexact_and_fail_no_publish() {
    let f = fixture().await;
    assert_eq!(publish(&f, 2, 3).await, Ok(2));
    for (count, outcome) in [("x", Ok(1)), ("-5", Ok(1)), ("99999", Err(0))] {
        let mut damage = redis::cmd("HSET");
        damage.arg("tg:0:{8209}:q:1").arg("delayed").arg(count);
        damage.exec(&mut f.connection()).unwrap();
        assert_eq!(publish(&f, 1, 3).await, outcome, "{count}");
    }
}

#[tokio::test]
async fn concurrent_publishes_never_exceed_the_limit() {
    const LIMIT: u64 = 37;
    let f = fixture().await;
    let publishes = (0..60_usize).map(|number| {
        let (store, queue) = (f.store.clone(), f.queue.clone());
        tokio::spawn(async move {
            let jobs = vec![job("x"); 1 + number % 3];
            let published = store.try_publish(&queue, &jobs, None, Some(LIMIT)).await;
            published
                .unwrap()
                .stored()
                .map_or(0, |published| published.ids.len() as u64)
        })
    });
    let mut stored = 0;
    for publish in publishes.collect::<Vec<_>>() {
        stored += publish.await.unwrap();
    }
    assert_eq!(f.counts().await, [0, stored, 0, 0]);
    assert_eq!(stored, LIMIT);
}

/// Random changes by several writers, and readers that read at random moments.
#[tokio::test]
async fn readers_that_read_now_and_then_end_with_the_stored_policies() {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let redis = RedisOptions::new().start();
    let store = Store::connect(&StoreConfig::new(redis.url()))
        .await
        .unwrap();
    let policies = store.policies();
    let mut readers = [Reader::default(), Reader::default(), Reader::default()];
    let mut stored: BTreeMap<QueueKey, QueuePolicy> = BTreeMap::new();
    for _ in 0..3000 {
        let queue = queue(random.random_range(0..40));
        let policy = match random.random_range(0..10) {
            0..4 => QueuePolicy::default(),
            jobs => limited(jobs),
        };
        set(&policies, &queue, &policy).await;
        stored.insert(queue, policy);
        for (often, reader) in [(3, 0), (100, 1), (700, 2)] {
            if random.random_range(0..often) == 0 {
                readers[reader].read(&policies).await;
            }
        }
    }
    stored.retain(|_, policy| *policy != QueuePolicy::default());
    for reader in &mut readers {
        reader.read(&policies).await;
        let read = reader.entries.iter();
        let read: BTreeMap<QueueKey, QueuePolicy> = read
            .map(|(queue, entry)| (queue.clone(), entry.policy.clone()))
            .collect();
        assert_eq!(read, stored, "seed {seed}");
    }
    print_figure(&format!(
        "reads of the whole table: {:?}",
        readers.map(|reader| reader.whole_reads)
    ));
}
