//! Finding the master through sentinels.

use std::net::Ipv4Addr;
use std::time::Duration;

use tidegate_core::{NewJob, QueueKey};
use tidegate_store::{Alarm, Doorbell, Store, StoreConfig};
use tidegate_testkit::certificates::write_text;
use tidegate_testkit::sentinel_group::{MASTER_NAME, PASSWORD, SENTINEL_PASSWORD};
use tidegate_testkit::{
    CertificateAuthority, DaemonProgram, FaultProxy, RedisOptions, SentinelGroup, consistency,
    eventually, free_port, print_figure, run_with_settings, seed, start_redis,
};
use tokio::time::{sleep, timeout};

use crate::fleet::{Fleet, live_through};
use crate::turn;

const EXAMPLE: &str = include_str!("../../../deploy/redis/users.acl");
/// The rights that deploy/redis/README.md requires.
const SENTINEL_USER: &str =
    "watcher on >watching -@all +sentinel|get-master-addr-by-name +sentinel|master";
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_is_found_while_any_sentinel_answers() {
    let _turn = turn().await;
    let mut group = SentinelGroup::start(1).await;
    let settings = group.settings();
    live_through(&Fleet::start(1, 1, &settings).await).await;
    group.sentinels[0].kill();
    group.sentinels[1].pause().unwrap();
    let fleet = Fleet::start(1, 1, &settings).await;
    live_through(&fleet).await;
    let logs = fleet.logs();
    assert!(!logs.contains("sesame"), "{logs}");
    consistency::check(&group.url(0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reason_is_logged_if_the_master_is_not_found() {
    let _turn = turn().await;
    let mut group = SentinelGroup::start(1).await;
    let good = group.settings();
    let name = format!("\"{MASTER_NAME}\"");
    for (pool, words) in [
        (good.replace(&name, "\"nobody\""), ["nobody", "master_name"]),
        (
            good.replace(SENTINEL_PASSWORD, "wrong"),
            ["authentication failed", "sentinel_password"],
        ),
        (
            good.replace(PASSWORD, "wrong"),
            ["authentication failed", "users.acl"],
        ),
    ] {
        let message = given_up(&pool).await;
        for word in words {
            assert!(message.contains(word), "{pool}: {message}");
        }
        assert!(!message.contains("sesame"), "{message}");
    }
    for sentinel in &mut group.sentinels {
        sentinel.kill();
    }
    let message = given_up(&good).await;
    assert!(
        message.contains("no sentinel knows the master"),
        "{message}"
    );
    assert!(
        message.contains(&group.sentinels[2].address().to_string()),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_reports_another_role_is_refused() {
    let _turn = turn().await;
    let master = start_redis();
    let of_master = format!("127.0.0.1 {}", master.port());
    let replica = RedisOptions::new().setting("replicaof", &of_master).start();
    let watch = format!("monitor tide 127.0.0.1 {} 1", replica.port());
    let sentinel = RedisOptions::sentinel().setting("sentinel", &watch).start();
    let pool = format!(
        "sentinels = [\"{}\"]\nmaster_name = \"tide\"\n",
        sentinel.address()
    );
    let message = given_up(&pool).await;
    assert!(message.contains("it says that it is none"), "{message}");
}

/// The sentinel still names the old master, which is back and reports that it is a master.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_missed_a_failover_is_ignored() {
    let _turn = turn().await;
    let mut group = SentinelGroup::start(1).await;
    let fleet = Fleet::start(1, 1, &group.settings()).await;
    let queue = fleet.queue("q").await;
    tokio::task::block_in_place(|| {
        group.sentinels[2].kill();
        group.servers[0].kill();
    });
    group.wait_until_replaced(0).await;
    until_all_say(&fleet, "the master is another server now").await;
    group.sentinels[0].kill();
    group.sentinels[1].kill();
    until_all_say(&fleet, "the master cannot be followed").await;
    // For the late sentinel it is a replica: after 8 s it would become one, and lose its jobs.
    group.refuse_to_follow(1).await;
    tokio::task::block_in_place(|| {
        group.servers[0].restart().unwrap();
        group.sentinels[2].restart().unwrap();
    });
    until_all_say(&fleet, "the master is followed again").await;
    assert_eq!(group.master_seen_by(2).await, 0);
    let id = queue.publish("x").delay_s(1).id().await;
    let job = queue.consume().timeout_s(20).ttr_s(60).job().await;
    assert_eq!(job.unwrap().id, id);
    let moves = fleet.logs().matches("another server now").count();
    assert_eq!(moves, 2, "one move for each daemon");
    assert_eq!(consistency::totals(&group.url(0)).await.leased, 0);
    assert_eq!(consistency::totals(&group.url(1)).await.leased, 1);
    consistency::check(&group.url(1)).await;
}

fn new_job() -> NewJob {
    NewJob {
        body: "x".into(),
        attributes: vec![],
        delay_ms: 0,
        ttl_ms: 0,
        tries: 1,
        mark: false,
        native: None,
    }
}

/// Right after `SENTINEL FAILOVER` one sentinel knows the new master. The others are the majority, they answer first,
/// and the old master still reports that it is one. Here they never learn of the failover: each group monitors its own
/// server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_has_not_heard_of_a_failover_is_ignored() {
    let (old, new) = (start_redis(), start_redis());
    let sentinel = |master: u16, epoch: u64| {
        RedisOptions::sentinel()
            .setting("sentinel", &format!("monitor tide 127.0.0.1 {master} 1"))
            .setting("sentinel", &format!("config-epoch tide {epoch}"))
            .start()
    };
    let late = [sentinel(old.port(), 1), sentinel(old.port(), 1)];
    let informed = sentinel(new.port(), 2);
    let loopback = (Ipv4Addr::LOCALHOST, 0).into();
    let distance = Duration::from_millis(50);
    let far = FaultProxy::start_at(loopback, informed.address(), distance, seed()).await;
    late.iter().for_each(|late| late.pause().unwrap());
    let mut config = StoreConfig::new("");
    config.sentinels = vec![far.address().to_string()];
    let of_late = late.iter().map(|late| late.address().to_string());
    config.sentinels.extend(of_late);
    config.master_name = Some("tide".to_owned());
    let store = Store::connect(&config).await.unwrap();
    late.iter().for_each(|late| late.resume().unwrap());
    let queue = QueueKey::try_from("shop/q").unwrap();
    // The sentinels are asked once a second.
    for jobs in 1..=40 {
        store.publish(&queue, &[new_job()], None).await.unwrap();
        assert_eq!(consistency::totals(&new.url()).await.ready, jobs);
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(consistency::totals(&old.url()).await.ready, 0);
}

/// Sentinels and master over TLS only, with the TLS of Redis itself, as users with few rights.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_and_sentinels_are_reached_over_tls() {
    let _turn = turn().await;
    if !start_redis().binary().has_tls() {
        print_figure("left out: this redis was built without TLS");
        return;
    }
    let (authority, folder) = (CertificateAuthority::new(), tempfile::tempdir().unwrap());
    let own = authority.certificate("127.0.0.1");
    let ca_file = write_text(folder.path(), "ca.pem", authority.pem());
    let over_tls = |options: RedisOptions, port: u16| {
        let certificate = write_text(folder.path(), "own.pem", &own.certificate);
        let key = write_text(folder.path(), "own.key", &own.key);
        options
            .setting("tls-port", &port.to_string())
            .setting("tls-cert-file", certificate.to_str().unwrap())
            .setting("tls-key-file", key.to_str().unwrap())
            .setting("tls-ca-cert-file", ca_file.to_str().unwrap())
            .setting("tls-auth-clients", "no")
            .setting("tls-replication", "yes")
    };
    let (port, sentinel_port) = (free_port().unwrap(), free_port().unwrap());
    let user = EXAMPLE.strip_prefix("user ").unwrap().trim();
    let master = over_tls(RedisOptions::new().setting("user", user), port).start();
    let watch = format!("monitor tide 127.0.0.1 {port} 1");
    let sentinel = RedisOptions::sentinel()
        .setting("user", SENTINEL_USER)
        .setting("sentinel", &watch);
    let _sentinel = over_tls(sentinel, sentinel_port).start();
    let pool = format!(
        "sentinels = \"127.0.0.1:{sentinel_port}\"\nmaster_name = \"tide\"\ntls_ca_file = {ca_file:?}\n\
         username = \"tidegate\"\npassword = \"CHANGE-ME\"\n\
         sentinel_username = \"watcher\"\nsentinel_password = \"watching\"\n"
    );
    let tls = "tls = true\ntls_sentinels = true\n";
    live_through(&Fleet::start(1, 1, &format!("{pool}{tls}")).await).await;
    consistency::check(&master.url()).await;
    // Without TLS the TLS port of the master cannot be used.
    let message = given_up(&format!("{pool}tls_sentinels = true\n")).await;
    assert!(message.contains("unavailable"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_move_to_the_new_master() {
    let _turn = turn().await;
    let group = SentinelGroup::start(1).await;
    let places = group.sentinels.iter().map(|one| one.address().to_string());
    let mut config = StoreConfig::new("");
    config.sentinels = places.collect();
    config.master_name = Some(MASTER_NAME.to_owned());
    config.password = Some(PASSWORD.to_owned());
    config.sentinel_password = Some(SENTINEL_PASSWORD.to_owned());
    let store = Store::connect(&config).await.unwrap();
    assert!(!format!("{store:?}").contains("sesame"), "{store:?}");
    let (mut doorbells, mut alarms) = (store.doorbells(), store.alarms());
    assert!(matches!(
        doorbells.next().await,
        Some(Doorbell::Resubscribed { .. })
    ));
    assert_eq!(alarms.next().await, Some(Alarm::Resubscribed));
    // The old master refuses all calls, and keeps its subscriptions open.
    group.deny_logins(0).await;
    let told = async {
        assert!(matches!(
            doorbells.next().await,
            Some(Doorbell::Resubscribed { .. })
        ));
        assert_eq!(alarms.next().await, Some(Alarm::Resubscribed));
    };
    timeout(LIMIT * 3, told).await.unwrap();
    assert_eq!(group.master_seen_by(0).await, 1);
    let queue = QueueKey::try_from("shop/orders").unwrap();
    let bucket = store.bucket_of(&queue);
    let registered = store.poll(bucket, [&queue].into_iter()).await.unwrap();
    assert_eq!(registered, [false]);
    store.publish(&queue, &[new_job()], None).await.unwrap();
    let heard = timeout(LIMIT, doorbells.next()).await.unwrap();
    assert_eq!(heard, Some(Doorbell::Rang { queue, bucket }));
}

async fn until_all_say(fleet: &Fleet, words: &str) {
    eventually(words, LIMIT * 3, async || {
        match fleet.daemons().find(|one| !one.log().contains(words)) {
            None => Ok(()),
            Some(silent) => Err(silent.log()),
        }
    })
    .await;
}

async fn given_up(pool: &str) -> String {
    let settings = format!("connect_patience = \"1s\"\n[pool.default]\n{pool}");
    let ended = run_with_settings(DaemonProgram::Api, &settings, &[], LIMIT).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
    ended.log
}
