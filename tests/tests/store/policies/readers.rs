//! Readers that follow the table of policies, as each API does.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidegate_core::{Policy, QueueKey};
use tidegate_store::{Row, Store, StoreConfig, Table, TableRevision, TableSetOutcome};
use tidegate_testkit::{RedisOptions, print_figure, seed};

use super::{limited, queue, set};
use crate::fixture::fixture;

/// What a reader knows, as an API follows the table.
#[derive(Default)]
struct Reader {
    last: Option<TableRevision>,
    entries: BTreeMap<QueueKey, Row<Policy>>,
    whole_reads: usize,
}

impl Reader {
    /// Reads the changes; returns how many entries were read.
    async fn read(&mut self, policies: &Table<Policy>) -> usize {
        let Some(changes) = policies.changes_since(self.last).await.unwrap() else {
            return 0;
        };
        self.last = Some(changes.last);
        if changes.is_all {
            self.whole_reads += 1;
            self.entries.clear();
        }
        let count = changes.by_name.len();
        for (queue, row) in changes.by_name {
            match row {
                Some(row) => self.entries.insert(queue, row),
                None => self.entries.remove(&queue),
            };
        }
        count
    }

    /// The policy of a queue that can be read.
    fn policy(&self, queue: &QueueKey) -> &Policy {
        self.entries[queue].value.as_ref().unwrap()
    }

    fn limits(&self) -> Vec<(String, Option<u64>)> {
        let queues = self.entries.keys();
        let limit = |queue: &QueueKey| (queue.queue.to_string(), self.policy(queue).max_jobs);
        queues.map(limit).collect()
    }
}

fn limits(pairs: &[(&str, u64)]) -> Vec<(String, Option<u64>)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, jobs)| ((*name).to_owned(), Some(*jobs)))
        .collect()
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
    set(&policies, &queue(5), &Policy::default()).await;
    assert_eq!(reader.read(&policies).await, 3);
    assert_eq!(*reader.policy(&queue(3)), limited(4));
    assert_eq!(*reader.policy(&queue(4)), limited(3));
    assert!(!reader.entries.contains_key(&queue(5)));
    assert_eq!(reader.entries.len(), 29);
    // What is not there cannot be removed, and is no change.
    set(&policies, &queue(5), &Policy::default()).await;
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
            .all(|row| row.value == Ok(limited(7)))
    );
    // Only the last changes stay listed. Two fields are the last revision, and the number of policies of the namespace.
    let fields: u64 = redis::cmd("HLEN")
        .arg("tg:policies")
        .query(&mut f.connection())
        .unwrap();
    assert_eq!(fields, 2 + 1700 + 500);
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
        assert_eq!(*reader.policy(&queue(1)), limited(1), "{others}");
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
    assert_eq!(reader.entries[&queue(1)].revision, Some(good));
    for (name, text) in &damaged[..5] {
        let name = QueueKey::try_from(*name).unwrap();
        let entry = &reader.entries[&name];
        assert_eq!(entry.value.as_ref().unwrap_err().text, *text);
        // A damaged policy has no revision that could be expected, and can be replaced.
        let refused = policies
            .set(&name, Some(&limited(3)), Some(TableRevision::default()))
            .await;
        assert!(matches!(
            refused.unwrap(),
            TableSetOutcome::VersionMismatch(_)
        ));
        set(&policies, &name, &limited(3)).await;
        let stored = policies.get(&name).await.unwrap().unwrap();
        assert_eq!(stored.value, Ok(limited(3)));
    }
    // A damaged last revision is replaced by the next change.
    let mut damage = redis::cmd("HSET");
    damage.arg("tg:policies").arg("#").arg("garbage");
    damage.exec(&mut f.connection()).unwrap();
    reader.read(&policies).await;
    assert_eq!(reader.last, Some(TableRevision::default()));
    assert_eq!(reader.read(&policies).await, 0);
    set(&policies, &queue(1), &limited(9)).await;
    reader.read(&policies).await;
    assert_eq!(*reader.policy(&queue(1)), limited(9));
    assert_eq!(reader.read(&policies).await, 0);
}

/// Random changes by several writers, and readers that read at random moments.
#[tokio::test]
async fn readers_that_read_now_and_then_end_with_the_stored_policies() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let redis = RedisOptions::new().start();
    let store = Store::connect(&StoreConfig::new(redis.url()))
        .await
        .unwrap();
    let policies = store.policies();
    let mut readers = [Reader::default(), Reader::default(), Reader::default()];
    let mut stored: BTreeMap<QueueKey, Policy> = BTreeMap::new();
    for _ in 0..3000 {
        let queue = queue(random.random_range(0..40));
        let policy = match random.random_range(0..10) {
            0..4 => Policy::default(),
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
    stored.retain(|_, policy| *policy != Policy::default());
    for reader in &mut readers {
        reader.read(&policies).await;
        let read = reader.entries.keys();
        let read: BTreeMap<QueueKey, Policy> = read
            .map(|queue| (queue.clone(), reader.policy(queue).clone()))
            .collect();
        assert_eq!(read, stored, "seed {seed}");
    }
    print_figure(&format!(
        "reads of the whole table: {:?}",
        readers.map(|reader| reader.whole_reads)
    ));
}
