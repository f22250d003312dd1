//! Publishes that wait for replicas or for the disk: what their answer reports, which publishes wait, and for how long.
//! `durability_failures` has what survives.

use std::time::{Duration, Instant};

use tidegate_testkit::fault_proxy::{DirectionConditions, ForwardMode, NetworkConditions};
use tidegate_testkit::{
    Answer, DaemonProgram, FaultProxy, QueueClient, RedisOptions, RedisServer, connect_to_redis,
    eventually, run_with_settings, seed,
};

use crate::fleet::Fleet;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const HEADER: &str = "x-durability";
/// The namespaces of these tests, by what their publishes wait for.
pub(crate) const SETTINGS: &str =
    "\n[durability.namespaces]\none = \"replica:1\"\ntwo = \"replica:2\"\n";

/// A server, and a replica that is connected to it through a proxy.
pub(crate) struct Pair {
    pub(crate) primary: RedisServer,
    pub(crate) replica: RedisServer,
    proxy: FaultProxy,
}

impl Pair {
    pub(crate) async fn start() -> Self {
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

    pub(crate) fn settings(&self, durability: &str) -> String {
        format!(
            "url = \"{}\"\n[durability]\n{durability}{SETTINGS}",
            self.primary.url()
        )
    }

    /// Writes of the primary do not reach its replica until [`Self::flow`].
    pub(crate) fn hold_back(&self) {
        let stalls = DirectionConditions {
            mode: ForwardMode::Stalls,
            ..DirectionConditions::default()
        };
        self.proxy.set(NetworkConditions {
            to_client: stalls,
            ..NetworkConditions::default()
        });
    }

    pub(crate) fn flow(&self) {
        self.proxy.set(NetworkConditions::default());
    }
}

pub(crate) async fn ask<T: redis::FromRedisValue>(url: &str, command: &redis::Cmd) -> T {
    let client = redis::Client::open(url).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    command.query_async(&mut connection).await.unwrap()
}

pub(crate) async fn queue(fleet: &Fleet, namespace: &str) -> QueueClient {
    QueueClient::with_new_token(&fleet.apis[0], "default", namespace, "q").await
}

pub(crate) fn id(answer: &Answer) -> String {
    answer.json()["job_id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_reports_the_durability_that_was_reached() {
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

    // There is one replica, and two are required.
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
        r#"tidegate_durable_publishes_total{durability="replica:1",outcome="reached",pool="default"} 4"#,
        r#"tidegate_durable_publishes_total{durability="replica:2",outcome="missed",pool="default"} 2"#,
        r#"tidegate_durability_wait_seconds_count{durability="replica:1",pool="default"} 4"#,
    ] {
        assert!(page.contains(sample), "{sample}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_publishes_that_require_a_replica_wait_for_it() {
    let pair = Pair::start().await;
    // Far longer than all other publishes take.
    let fleet = Fleet::start(1, 0, &pair.settings("timeout = \"25s\"")).await;
    let one = queue(&fleet, "one").await;
    let plain = queue(&fleet, "plain").await;
    one.publish("x").id().await;
    pair.hold_back();
    // More than there are connections for barriers.
    let waiting: Vec<_> = (0..12)
        .map(|_| tokio::spawn(one.with_separate_connections().publish("x").id()))
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
        "a publish was answered before the replica had its job"
    );
    pair.flow();
    for one in waiting {
        one.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_is_stored_and_answered_504_if_the_replica_is_paused() {
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

/// A kill does not show what is on the disk, since the page cache survives it. A server that never calls fsync shows
/// that an answer waits for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_calls_fsync_never_confirms_the_disk() {
    let starting = tokio::task::spawn_blocking(|| {
        let options = RedisOptions::valkey();
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

/// Without an append-only file no version of a server can confirm the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_confirm_the_disk_is_refused_at_the_start() {
    let redis = RedisOptions::new().without_append_only_file().start();
    let settings = format!(
        "[pool.default]\nurl = \"{}\"\nunsafe_server = \"warn\"\n[durability.namespaces]\nsafe = \"fsync\"\n",
        redis.url()
    );
    let limit = Duration::from_secs(20);
    let ended = run_with_settings(DaemonProgram::Api, &settings, &[], limit).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let sentence = ended.log.lines().last().unwrap_or_default();
    for word in ["pool default: ", "WAITAOF", "appendonly yes"] {
        assert!(sentence.contains(word), "{sentence}");
    }
}

/// A barrier changes no data that stays, so it may be repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_continues_on_another_connection_when_its_own_breaks() {
    let pair = Pair::start().await;
    let fleet = Fleet::start(1, 0, &pair.settings("timeout = \"25s\"")).await;
    let one = queue(&fleet, "one").await;
    one.publish("x").id().await;
    pair.hold_back();
    let waiting = tokio::spawn(one.with_separate_connections().publish("x").send());
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

/// The id of a client that is blocked in `WAIT`.
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
        let options = RedisOptions::valkey().setting("timeout", "3");
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

/// Waits until every client of a server was active within the last 3 s or is a subscriber.
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

/// A server gets another replication id when its first replica attaches, and has lost nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_waits_for_a_first_replica_that_attaches_later() {
    let primary = RedisOptions::new()
        .setting("repl-diskless-sync-delay", "0")
        .start();
    let settings = format!(
        "url = \"{}\"\n[durability]\ntimeout = \"25s\"{SETTINGS}",
        primary.url()
    );
    let fleet = Fleet::start(1, 0, &settings).await;
    let one = queue(&fleet, "one").await;
    let waiting = tokio::spawn(one.with_separate_connections().publish("x").send());
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
