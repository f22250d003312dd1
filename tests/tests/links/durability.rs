//! Publishes that wait for replicas or for the disk: what was acknowledged survives what it should, what could
//! not be confirmed is told, and nobody else waits.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidegate_testkit::certificates::written;
use tidegate_testkit::fault_proxy::{Flow, Way, Weather};
use tidegate_testkit::{
    Answer, ClusterGroup, FaultProxy, Program, Queue, RedisOptions, RedisServer, SentinelGroup,
    eventually, figure, run_to_end, seed,
};
use tokio::task::JoinHandle;

use crate::fleet::Fleet;
use crate::turn;

const PATIENCE: Duration = Duration::from_secs(60);
const HEADER: &str = "x-durability";
/// The namespaces of these tests, by what their publishes wait for.
const SETTINGS: &str = "\n[durability.namespaces]\none = \"replica:1\"\ntwo = \"replica:2\"\n";

/// A server, and a replica that follows it through a proxy.
struct Pair {
    primary: RedisServer,
    replica: RedisServer,
    proxy: FaultProxy,
}

impl Pair {
    async fn start() -> Self {
        let primary = RedisOptions::new()
            .setting("repl-diskless-sync-delay", "0")
            .start();
        let proxy = FaultProxy::start(primary.address(), seed()).await;
        let follows = format!("127.0.0.1 {}", proxy.address().port());
        let starting = tokio::task::spawn_blocking(move || {
            RedisOptions::new().setting("replicaof", &follows).start()
        });
        let replica = starting.await.unwrap();
        eventually("a replica follows", PATIENCE, async || {
            let mut info = redis::cmd("INFO");
            info.arg("replication");
            let info: String = ask(&primary.url(), &info).await;
            match info.contains("state=online") {
                true => Ok(()),
                false => Err(info),
            }
        })
        .await;
        Self {
            primary,
            replica,
            proxy,
        }
    }

    fn settings(&self, durability: &str) -> String {
        format!(
            "url = \"{}\"\n[durability]\n{durability}{SETTINGS}",
            self.primary.url()
        )
    }

    /// What the primary writes does not reach its replica until [`Self::flow`].
    fn hold_back(&self) {
        let stalls = Way {
            flow: Flow::Stalls,
            ..Way::default()
        };
        self.proxy.set(Weather {
            to_client: stalls,
            ..Weather::default()
        });
    }

    fn flow(&self) {
        self.proxy.set(Weather::default());
    }
}

async fn ask<T: redis::FromRedisValue>(url: &str, command: &redis::Cmd) -> T {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    command.query_async(&mut connection).await.unwrap()
}

async fn queue(fleet: &Fleet, namespace: &str) -> Queue {
    Queue::with_new_token(&fleet.apis[0], "default", namespace, "q").await
}

fn id(answer: &Answer) -> String {
    answer.json()["job_id"].as_str().unwrap().to_owned()
}

/// Publishers that go on until they are not told 201, and the ids of what was acknowledged.
struct Publishers {
    tasks: Vec<JoinHandle<Vec<String>>>,
    are_done: Arc<AtomicBool>,
}

impl Publishers {
    /// One for each of these queues; waits until they have had so many jobs acknowledged.
    async fn start(queues: Vec<Queue>, at_least: usize) -> Self {
        let count = queues.len();
        let (sender, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
        let are_done = Arc::new(AtomicBool::new(false));
        let publishers = queues.into_iter().map(|queue| {
            let (sender, are_done) = (sender.clone(), Arc::clone(&are_done));
            tokio::spawn(async move {
                let queue = queue.apart();
                let mut ids = Vec::new();
                while let Ok(answer) = queue.publish("kept").ttl_s(0).send().await {
                    if answer.status != 201 {
                        break;
                    }
                    ids.push(id(&answer));
                    // Who counts may have enough.
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
            next.expect("some publisher goes on: all were refused before they had enough");
        }
        figure(&format!(
            "{count} publishers had {at_least} jobs acknowledged"
        ));
        publishers
    }

    /// What each of them was told 201 for, until now at least.
    async fn end(self) -> Vec<Vec<String>> {
        self.are_done.store(true, Ordering::Relaxed);
        let ended = join_all(self.tasks).await.into_iter();
        ended.map(Result::unwrap).collect()
    }
}

/// Every job is there, once.
async fn expect_all(queue: &Queue, ids: &[String]) {
    let distinct: HashSet<&String> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
    for id in ids {
        let found = queue.peek_job(id).await.status;
        assert_eq!(found, 200, "{id} was acknowledged and is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_tells_what_was_reached_and_only_where_more_than_memory_was_asked_for() {
    let pair = Pair::start().await;
    let settings = pair.settings("timeout = \"3s\"");
    let fleet = Fleet::start(1, 0, &settings).await;
    let one = queue(&fleet, "one").await;
    let plain = queue(&fleet, "plain").await;
    let header = |answer: &Answer| answer.header(HEADER).map(str::to_owned);
    let replica = || Some("replica:1".to_owned());

    let answer = plain.publish("x").send().await.unwrap().expect(201);
    assert_eq!(header(&answer), None);
    let answer = one.publish("x").send().await.unwrap().expect(201);
    assert_eq!(header(&answer), replica());
    let again = one.republish(&id(&answer), "y").send().await.unwrap();
    assert_eq!(header(&again.expect(201)), replica());
    let large = one.publish(vec![b'x'; 100_000]).send().await.unwrap();
    assert_eq!(header(&large.expect(201)), replica());
    let bodies = ["1".to_owned(), "2".to_owned()];
    let bulk = one.publish_bulk(&bodies).send().await.unwrap();
    assert_eq!(header(&bulk.expect(201)), replica());
    assert_eq!(one.size().await, 4);

    // There is one replica, and two are asked for.
    let two = queue(&fleet, "two").await;
    let answer = two.publish("x").send().await.unwrap().expect(504);
    assert_eq!(header(&answer), replica());
    let said = answer.json()["error"].as_str().unwrap().to_owned();
    assert!(said.contains("replica:2 was not confirmed"), "{said}");
    assert_eq!(two.peek_job(&id(&answer)).await.status, 200, "it is stored");
    let answer = two.publish_bulk(&bodies).send().await.unwrap().expect(504);
    assert_eq!(answer.json()["job_ids"].as_array().unwrap().len(), 2);
    assert_eq!(two.size().await, 3);

    let page = reqwest::get(format!("{}/metrics", fleet.apis[0].admin_url()));
    let page = page.await.unwrap().text().await.unwrap();
    for sample in [
        r#"tidegate_durable_publishes_total{pool="default",durability="replica:1",outcome="reached"} 4"#,
        r#"tidegate_durable_publishes_total{pool="default",durability="replica:2",outcome="missed"} 2"#,
        r#"tidegate_durability_wait_seconds_count{pool="default",durability="replica:1"} 4"#,
    ] {
        assert!(page.contains(sample), "{sample}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_those_who_asked_wait_for_a_replica_that_lags() {
    let pair = Pair::start().await;
    // Far longer than all the others need.
    let fleet = Fleet::start(1, 0, &pair.settings("timeout = \"25s\"")).await;
    let one = queue(&fleet, "one").await;
    let plain = queue(&fleet, "plain").await;
    one.publish("x").id().await;
    pair.hold_back();
    // More than there are connections that wait.
    let waiting: Vec<_> = (0..12)
        .map(|_| tokio::spawn(one.apart().publish("x").id()))
        .collect();
    let stored = async || match one.size().await {
        13 => Ok(()),
        other => Err(other),
    };
    eventually("they are stored", PATIENCE, stored).await;
    for _ in 0..200 {
        plain.publish("x").id().await;
    }
    assert!(
        waiting.iter().all(|one| !one.is_finished()),
        "what waits for a replica was answered though none had it"
    );
    pair.flow();
    for one in waiting {
        one.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_stands_still_is_told_in_time_and_the_job_is_there() {
    let pair = Pair::start().await;
    let fleet = Fleet::start(1, 0, &pair.settings("timeout = \"2s\"")).await;
    let one = queue(&fleet, "one").await;
    one.publish("x").id().await;
    pair.replica.pause().unwrap();
    for _ in 0..3 {
        let began_at = Instant::now();
        let answer = one.publish("x").send().await.unwrap().expect(504);
        let took = began_at.elapsed();
        assert!(
            took >= Duration::from_secs(2) && took < Duration::from_secs(20),
            "{took:?}"
        );
        assert_eq!(answer.header(HEADER), Some("memory"));
        assert_eq!(one.peek_job(&id(&answer)).await.status, 200);
    }
    pair.replica.resume().unwrap();
    eventually("it is confirmed again", PATIENCE, async || {
        match one.publish("x").send().await.unwrap().status {
            201 => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

/// The same fault, once seen with each durability: what memory alone acknowledged is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_replica_was_waited_for_survives_the_primary_and_the_rest_does_not() {
    let mut pair = Pair::start().await;
    let fleet = Fleet::start(1, 0, &pair.settings("timeout = \"5s\"")).await;
    let one = queue(&fleet, "one").await;
    let plain = queue(&fleet, "plain").await;
    let publishers = Publishers::start(vec![one.clone(); 8], 300).await;
    pair.hold_back();
    let lost = plain.publish("x").id().await;
    let acknowledged = publishers.end().await.concat();
    tokio::task::block_in_place(|| pair.primary.kill());

    let promote = redis::cmd("REPLICAOF").arg("NO").arg("ONE").to_owned();
    let _: String = ask(&pair.replica.url(), &promote).await;
    let settings = format!("url = \"{}\"\n", pair.replica.url());
    let other = Fleet::start(1, 0, &settings).await;
    figure(&format!("{} jobs were acknowledged", acknowledged.len()));
    expect_all(&one.at(&other.apis[0]), &acknowledged).await;
    let found = plain.at(&other.apis[0]).peek_job(&lost).await;
    assert_eq!(found.status, 404, "the replica had what was held back");
}

/// A server that was restarted may have lost what it acknowledged before, though it answers at the same address. Its
/// replica is in time here, and yet that is no confirmation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_restarted_confirms_nothing_that_it_had_before() {
    let mut pair = Pair::start().await;
    let fleet = Fleet::start(1, 0, &pair.settings("timeout = \"25s\"")).await;
    let one = queue(&fleet, "one").await;
    one.publish("x").id().await;
    pair.hold_back();
    let waiting = tokio::spawn(one.apart().publish("x").send());
    let stored = async || match one.size().await {
        2 => Ok(()),
        other => Err(other),
    };
    eventually("it is stored", PATIENCE, stored).await;
    tokio::task::block_in_place(|| pair.primary.kill());
    tokio::task::block_in_place(|| pair.primary.start_again()).unwrap();
    pair.flow();
    // The replica follows again long before the wait would end.
    let answer = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    let answer = answer.expect("an answer before the wait ends");
    let answer = answer.unwrap().unwrap().expect(504);
    assert_eq!(answer.header(HEADER), Some("memory"));
    eventually("what is new is confirmed", PATIENCE, async || {
        match one.publish("x").send().await.unwrap().status {
            201 => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_right_after_the_answers_loses_none_of_them() {
    let _turn = turn().await;
    let mut group = SentinelGroup::start(1).await;
    let settings = format!("{}{SETTINGS}", group.settings());
    let fleet = Fleet::start(1, 0, &settings).await;
    let one = queue(&fleet, "one").await;
    let publishers = Publishers::start(vec![one.clone(); 8], 500).await;
    tokio::task::block_in_place(|| group.servers[0].kill());
    group.until_replaced(0).await;
    let acknowledged = publishers.end().await.concat();
    eventually("the new master is followed", PATIENCE, async || {
        match one.peek().await.status {
            200 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    figure(&format!("{} jobs were acknowledged", acknowledged.len()));
    expect_all(&one, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_of_a_cluster_dies_right_after_the_answers_and_none_of_them_is_lost() {
    let _turn = turn().await;
    let mut group = ClusterGroup::start().await;
    let settings = format!("{}{SETTINGS}", group.settings());
    let fleet = Fleet::start(1, 0, &settings).await;
    let one = queue(&fleet, "one").await;
    let queues: Vec<Queue> = (0..12)
        .map(|number| one.sibling(&format!("q{number}")))
        .collect();
    let publishers = Publishers::start(queues.clone(), 600).await;
    let replica = group.replica_of(0).await;
    tokio::task::block_in_place(|| group.servers[0].kill());
    group.until_primary(replica).await;
    let acknowledged = publishers.end().await;
    for (queue, ids) in queues.iter().zip(&acknowledged) {
        eventually("a queue is there again", PATIENCE, async || {
            match queue.peek().await.status {
                200 => Ok(()),
                other => Err(other),
            }
        })
        .await;
        assert!(!ids.is_empty());
        expect_all(queue, ids).await;
    }
    let count: usize = acknowledged.iter().map(Vec::len).sum();
    figure(&format!("{count} jobs were acknowledged"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_disk_was_waited_for_is_there_after_a_kill() {
    let starting = tokio::task::spawn_blocking(|| RedisOptions::new().valkey().start());
    let mut server = starting.await.unwrap();
    let settings = format!(
        "url = \"{}\"\n[durability]\ndefault = \"fsync\"\ntimeout = \"20s\"\n",
        server.url()
    );
    let fleet = Fleet::start(1, 0, &settings).await;
    let safe = queue(&fleet, "safe").await;
    let answer = safe.publish("x").send().await.unwrap().expect(201);
    assert_eq!(answer.header(HEADER), Some("fsync"));
    let publishers = Publishers::start(vec![safe.clone(); 16], 64).await;
    tokio::task::block_in_place(|| server.kill());
    let acknowledged = publishers.end().await.concat();
    tokio::task::block_in_place(|| server.start_again()).unwrap();
    eventually("the server is back", PATIENCE, async || {
        match safe.peek().await.status {
            200 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    expect_all(&safe, &acknowledged).await;
}

/// A kill does not show what is on the disk, since the system's memory survives it. That an answer waits
/// for the disk shows where the server never writes to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_leaves_writing_to_the_system_never_confirms_the_disk() {
    let starting = tokio::task::spawn_blocking(|| {
        let options = RedisOptions::new().valkey();
        options.setting("appendfsync", "no").start()
    });
    let server = starting.await.unwrap();
    let settings = format!(
        "url = \"{}\"\n[durability]\ndefault = \"fsync\"\ntimeout = \"500ms\"\n",
        server.url()
    );
    let fleet = Fleet::start(1, 0, &settings).await;
    let safe = queue(&fleet, "safe").await;
    let answer = safe.publish("x").send().await.unwrap().expect(504);
    assert_eq!(answer.header(HEADER), Some("memory"));
    let always = redis::cmd("CONFIG")
        .arg("SET")
        .arg("appendfsync")
        .arg("always")
        .to_owned();
    let _: String = ask(&server.url(), &always).await;
    let answer = safe.publish("x").send().await.unwrap().expect(201);
    assert_eq!(answer.header(HEADER), Some("fsync"));
}

/// Without an append-only file no server can tell, whatever its version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_tell_is_refused_at_the_start() {
    let redis = RedisOptions::new().without_append_only_file().start();
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[pool.default]\nurl = \"{}\"\nunsafe_server = \"warn\"\n[durability.namespaces]\nsafe = \"fsync\"\n",
        redis.url()
    );
    let config = written(folder.path(), "settings.toml", &text);
    let limit = Duration::from_secs(20);
    let arguments = ["--config", config.to_str().unwrap()];
    let ended = run_to_end(Program::Api, &arguments, limit).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let sentence = ended.log.lines().last().unwrap_or_default();
    for word in ["pool default: ", "WAITAOF", "appendonly yes"] {
        assert!(sentence.contains(word), "{sentence}");
    }
}

/// A barrier changes nothing that stays, so it may be sent any number of times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_whose_connection_breaks_goes_on_over_another_one() {
    let pair = Pair::start().await;
    let fleet = Fleet::start(1, 0, &pair.settings("timeout = \"25s\"")).await;
    let one = queue(&fleet, "one").await;
    one.publish("x").id().await;
    pair.hold_back();
    let waiting = tokio::spawn(one.apart().publish("x").send());
    for _ in 0..3 {
        let blocked = eventually("a connection waits", PATIENCE, async || {
            blocked_client(&pair.primary.url()).await.ok_or("none does")
        })
        .await;
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(blocked);
        assert_eq!(ask::<u64>(&pair.primary.url(), &kill).await, 1);
    }
    pair.flow();
    let answer = waiting.await.unwrap().unwrap().expect(201);
    assert_eq!(answer.header(HEADER), Some("replica:1"));
}

/// The id of a client that is in `WAIT`.
async fn blocked_client(url: &str) -> Option<String> {
    let clients: String = ask(url, redis::cmd("CLIENT").arg("LIST")).await;
    let mut lines = clients.lines();
    let blocked = lines.find(|line| line.contains(" cmd=wait "))?;
    let id = blocked.split(' ').next()?.strip_prefix("id=")?;
    Some(id.to_owned())
}

/// The server ends connections that are idle for 3 s (`timeout`). The main connection is in use once a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_durable_and_the_first_large_publish_after_an_idle_time_succeed() {
    let starting = tokio::task::spawn_blocking(|| {
        let options = RedisOptions::new().valkey().setting("timeout", "3");
        options.start()
    });
    let server = starting.await.unwrap();
    let settings = format!(
        "url = \"{}\"\n[durability]\ntimeout = \"20s\"\n[durability.namespaces]\nsafe = \"fsync\"\n",
        server.url()
    );
    let fleet = Fleet::start(1, 0, &settings).await;
    let (safe, plain) = (queue(&fleet, "safe").await, queue(&fleet, "plain").await);
    let large = || plain.publish(vec![b'x'; 100_000]);
    safe.publish("x").id().await;
    large().id().await;
    for _ in 0..2 {
        until_idle_clients_are_ended(&server.url()).await;
        let answer = safe.publish("x").send().await.unwrap().expect(201);
        assert_eq!(answer.header(HEADER), Some("fsync"));
        large().id().await;
        until_idle_clients_are_ended(&server.url()).await;
        let job = plain.consume().job().await.unwrap();
        assert_eq!(job.text().len(), 100_000);
        plain.ack(&job.id).await;
    }
}

/// Waits until every client of a server but the one that asks was active within the last 3 s, or subscribes.
async fn until_idle_clients_are_ended(url: &str) {
    tokio::time::sleep(Duration::from_secs(4)).await;
    eventually("idle clients are ended", PATIENCE, async || {
        let clients: String = ask(url, redis::cmd("CLIENT").arg("LIST")).await;
        let is_idle = |line: &&str| {
            let mut words = line.split(' ');
            let idle = words.find_map(|word| word.strip_prefix("idle="));
            let idle_s: u64 = idle.unwrap_or_default().parse().unwrap_or_default();
            idle_s >= 3 && line.contains(" ssub=0 ")
        };
        match clients.lines().find(is_idle) {
            None => Ok(()),
            Some(line) => Err(line.to_owned()),
        }
    })
    .await;
}

/// A server takes another replication id when its first replica attaches; it has lost nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_waits_for_a_first_replica_that_attaches_meanwhile() {
    let primary = RedisOptions::new()
        .setting("repl-diskless-sync-delay", "0")
        .start();
    let settings = format!(
        "url = \"{}\"\n[durability]\ntimeout = \"25s\"{SETTINGS}",
        primary.url()
    );
    let fleet = Fleet::start(1, 0, &settings).await;
    let one = queue(&fleet, "one").await;
    let waiting = tokio::spawn(one.apart().publish("x").send());
    eventually("it is stored", PATIENCE, async || match one.size().await {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    let follows = format!("127.0.0.1 {}", primary.port());
    let starting = tokio::task::spawn_blocking(move || {
        RedisOptions::new().setting("replicaof", &follows).start()
    });
    let _replica = starting.await.unwrap();
    let answer = waiting.await.unwrap().unwrap().expect(201);
    assert_eq!(answer.header(HEADER), Some("replica:1"));
}
