//! Publishes that wait for replicas or for the disk, while servers die, restart or are replaced: what was confirmed
//! survives, and a server confirms nothing that it may have lost.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_testkit::{
    ClusterGroup, QueueClient, RedisOptions, SentinelGroup, eventually, print_figure,
};
use tokio::task::JoinHandle;

use crate::durability::{HEADER, PATIENCE, Pair, SETTINGS, ask, id, queue};
use crate::fleet::Fleet;
use crate::turn;

/// Publishers that run until an answer is not 201, and the ids of their acknowledged jobs.
struct DurablePublishers {
    tasks: Vec<JoinHandle<Vec<String>>>,
    are_done: Arc<AtomicBool>,
}

impl DurablePublishers {
    /// Starts one for each of these queues; waits until this many jobs are acknowledged.
    async fn start(queues: Vec<QueueClient>, at_least: usize) -> Self {
        let count = queues.len();
        #[expect(clippy::disallowed_methods, reason = "bounded by the test")]
        let (sender, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
        let are_done = Arc::new(AtomicBool::new(false));
        let publishers = queues.into_iter().map(|queue| {
            let (sender, are_done) = (sender.clone(), Arc::clone(&are_done));
            tokio::spawn(async move {
                let queue = queue.with_separate_connections();
                let mut ids = Vec::new();
                while let Ok(answer) = queue.publish("kept").ttl_s(0).send().await {
                    if answer.status != 201 {
                        break;
                    }
                    ids.push(id(&answer));
                    // The receiver may have counted enough.
                    let _ = sender.send(());
                    if are_done.load(Ordering::Relaxed) {
                        break;
                    }
                }
                ids
            })
        });
        let publishers = Self {
            tasks: publishers.collect(),
            are_done,
        };
        drop(sender);
        for _ in 0..at_least {
            let next = acknowledged.recv().await;
            next.expect("all publishers were refused before enough jobs were acknowledged");
        }
        print_figure(&format!(
            "{count} publishers had {at_least} jobs acknowledged"
        ));
        publishers
    }

    /// Stops the publishers; returns the ids of the jobs that each of them had answered 201.
    async fn end(self) -> Vec<Vec<String>> {
        self.are_done.store(true, Ordering::Relaxed);
        let ended = join_all(self.tasks).await.into_iter();
        ended.map(Result::unwrap).collect()
    }
}

/// Each of these jobs is stored, and each id is unique.
async fn expect_all(queue: &QueueClient, ids: &[String]) {
    let distinct: HashSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    for id in ids {
        let found = queue.peek_job(id).await.status;
        assert_eq!(found, 200, "{id} was acknowledged and is lost");
    }
}

/// The same fault loses a publish that did not wait for the replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_confirmed_by_a_replica_survive_the_primary() {
    let mut pair = Pair::start().await;
    let fleet = Fleet::start(1, 0, &pair.settings("timeout = \"5s\"")).await;
    let one = queue(&fleet, "one").await;
    let plain = queue(&fleet, "plain").await;
    let publishers = DurablePublishers::start(vec![one.clone(); 8], 300).await;
    pair.hold_back();
    let lost = plain.publish("x").id().await;
    let acknowledged = publishers.end().await.concat();
    tokio::task::block_in_place(|| pair.primary.kill());

    let promote = redis::cmd("REPLICAOF").arg("NO").arg("ONE").to_owned();
    let _: String = ask(&pair.replica.url(), &promote).await;
    let settings = format!("url = \"{}\"\n", pair.replica.url());
    let other = Fleet::start(1, 0, &settings).await;
    print_figure(&format!("{} jobs were acknowledged", acknowledged.len()));
    expect_all(&one.on_api(&other.apis[0]), &acknowledged).await;
    let found = plain.on_api(&other.apis[0]).peek_job(&lost).await;
    assert_eq!(found.status, 404, "the replica had what was held back");
}

/// A restarted server may have lost jobs that it acknowledged before, though it answers at the same address. Its
/// replica is in sync in time here, and still the publish is not confirmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_confirms_no_earlier_publish() {
    let mut pair = Pair::start().await;
    let fleet = Fleet::start(1, 0, &pair.settings("timeout = \"25s\"")).await;
    let one = queue(&fleet, "one").await;
    one.publish("x").id().await;
    pair.hold_back();
    let waiting = tokio::spawn(one.with_separate_connections().publish("x").send());
    let stored = async || match one.size().await {
        2 => Ok(()),
        other => Err(other),
    };
    eventually("it is stored", PATIENCE, stored).await;
    tokio::task::block_in_place(|| pair.primary.kill());
    tokio::task::block_in_place(|| pair.primary.restart()).unwrap();
    pair.flow();
    // The replica is in sync again long before the wait would time out.
    let answer = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    let answer = answer.expect("an answer before the wait ends");
    let answer = answer.unwrap().unwrap().expect(504);
    assert_eq!(answer.header(HEADER), Some("memory"));
    eventually("a new publish is confirmed", PATIENCE, async || {
        match one.publish("x").send().await.unwrap().status {
            201 => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_no_confirmed_publish() {
    let _turn = turn().await;
    let mut group = SentinelGroup::start(1).await;
    let settings = format!("{}{SETTINGS}", group.settings());
    let fleet = Fleet::start(1, 0, &settings).await;
    let one = queue(&fleet, "one").await;
    let publishers = DurablePublishers::start(vec![one.clone(); 8], 500).await;
    tokio::task::block_in_place(|| group.servers[0].kill());
    group.wait_until_replaced(0).await;
    let acknowledged = publishers.end().await.concat();
    eventually("the new master is used", PATIENCE, async || {
        match one.peek().await.status {
            200 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    print_figure(&format!("{} jobs were acknowledged", acknowledged.len()));
    expect_all(&one, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_cluster_primary_loses_no_confirmed_publish() {
    let _turn = turn().await;
    let mut group = ClusterGroup::start().await;
    let settings = format!("{}{SETTINGS}", group.settings());
    let fleet = Fleet::start(1, 0, &settings).await;
    let one = queue(&fleet, "one").await;
    let queues: Vec<QueueClient> = (0..12)
        .map(|number| one.sibling(&format!("q{number}")))
        .collect();
    let publishers = DurablePublishers::start(queues.clone(), 600).await;
    let replica = group.replica_of(0).await;
    tokio::task::block_in_place(|| group.servers[0].kill());
    group.wait_until_primary(replica).await;
    let acknowledged = publishers.end().await;
    for (queue, ids) in queues.iter().zip(&acknowledged) {
        eventually(
            "a queue is available again",
            PATIENCE,
            async || match queue.peek().await.status {
                200 => Ok(()),
                other => Err(other),
            },
        )
        .await;
        assert!(!ids.is_empty());
        expect_all(queue, ids).await;
    }
    let count: usize = acknowledged.iter().map(Vec::len).sum();
    print_figure(&format!("{count} jobs were acknowledged"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishes_confirmed_by_the_disk_survive_a_kill() {
    let starting = tokio::task::spawn_blocking(|| RedisOptions::valkey().start());
    let mut server = starting.await.unwrap();
    let settings = format!(
        "url = \"{}\"\n[durability]\ndefault = \"fsync\"\ntimeout = \"20s\"\n",
        server.url()
    );
    let fleet = Fleet::start(1, 0, &settings).await;
    let safe = queue(&fleet, "safe").await;
    let answer = safe.publish("x").send().await.unwrap().expect(201);
    assert_eq!(answer.header(HEADER), Some("fsync"));
    let publishers = DurablePublishers::start(vec![safe.clone(); 16], 64).await;
    tokio::task::block_in_place(|| server.kill());
    let acknowledged = publishers.end().await.concat();
    tokio::task::block_in_place(|| server.restart()).unwrap();
    eventually("the server is back", PATIENCE, async || {
        match safe.peek().await.status {
            200 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    expect_all(&safe, &acknowledged).await;
}
