//! Redis refuses the login of daemons for a while, as after a restart before its users are loaded.

use std::time::{Duration, Instant};

use tidegate_testkit::{
    Answer, QueueClient, RedisOptions, RedisServer, connect_to_redis, eventually, print_figure,
};

use crate::fleet::Fleet;

const EXAMPLE: &str = include_str!("../../../deploy/redis/users.acl");
const ADMIN_PASSWORD: &str = "admin-sesame";
const PATIENCE: Duration = Duration::from_secs(60);
/// Each connection reconnects with the first call from 0.2 s after a refused login on.
const RECOVERY_MAX: Duration = Duration::from_secs(10);
const LARGE_BYTES: usize = 100_000;

/// The user of the example, with the rights that durable publishes need.
fn rule() -> String {
    let rule = EXAMPLE.strip_prefix("user ").unwrap().trim();
    rule.replace(" +zadd ", " +zadd +wait +waitaof ")
}

/// A server that can confirm writes to its disk, with the user of the daemons.
async fn server() -> RedisServer {
    let starting = tokio::task::spawn_blocking(|| {
        RedisOptions::valkey()
            .setting("requirepass", ADMIN_PASSWORD)
            .setting("user", &rule())
            .start()
    });
    starting.await.unwrap()
}

async fn add_user(redis: &RedisServer) {
    let url = format!("redis://:{ADMIN_PASSWORD}@{}", redis.address());
    let client = redis::Client::open(url).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let mut set = redis::cmd("ACL");
    set.arg("SETUSER")
        .arg(rule().split(' ').collect::<Vec<_>>());
    let _: String = set.query_async(&mut connection).await.unwrap();
}

async fn publish(queue: &QueueClient, bytes: usize) -> Answer {
    let body = vec![b'x'; bytes];
    queue.publish(body).send().await.unwrap()
}

/// Publishes over each kind of connection, and returns the statuses of the answers.
async fn statuses(plain: &QueueClient, safe: &QueueClient) -> [u16; 3] {
    [
        publish(plain, 1).await.status,
        publish(plain, LARGE_BYTES).await.status,
        publish(safe, 1).await.status,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_recover_once_their_login_is_accepted_again() {
    let mut redis = server().await;
    let pool = format!(
        "url = \"redis://{}\"\nusername = \"tidegate\"\npassword = \"CHANGE-ME\"\n",
        redis.address()
    );
    let durability = "[durability]\ntimeout = \"10s\"\n[durability.namespaces]\nsafe = \"fsync\"\n";
    let fleet = Fleet::start(1, 0, &format!("{pool}{durability}")).await;
    let _pumps = Fleet::start(0, 1, &pool).await;
    let api = &fleet.apis[0];
    let plain = QueueClient::with_new_token(api, "default", "plain", "q").await;
    let safe = QueueClient::with_new_token(api, "default", "safe", "q").await;
    let woken = plain.sibling("woken");
    assert_eq!(statuses(&plain, &safe).await, [201; 3]);
    let parked = tokio::spawn(
        woken
            .with_separate_connections()
            .consume()
            .timeout_s(600)
            .ttr_s(60)
            .job(),
    );
    api.wait_for_waiting_consumers(1).await;

    tokio::task::block_in_place(|| redis.kill());
    redis.set_for_next_start("user", "nobody off");
    tokio::task::block_in_place(|| redis.restart()).unwrap();
    // Every connection is refused, more than once.
    let refused_from = Instant::now();
    while refused_from.elapsed() < Duration::from_secs(3) {
        assert_eq!(statuses(&plain, &safe).await, [500; 3]);
    }
    assert!(fleet.logs().contains("redis refused a connection"));

    add_user(&redis).await;
    let back_at = Instant::now();
    eventually("all connections work", PATIENCE, async || {
        match statuses(&plain, &safe).await {
            [201, 201, 201] => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let large = plain.consume_from(&["q"]).count(100).jobs().await;
    assert!(large.iter().any(|job| job.text().len() == LARGE_BYTES));
    // The pump leads its buckets again, and its doorbell reaches the waiting consumer.
    let id = woken.publish("due").delay_s(1).id().await;
    assert_eq!(parked.await.unwrap().unwrap().id, id);
    let took = back_at.elapsed();
    print_figure(&format!("login possible again: all works after {took:?}"));
    assert!(took < RECOVERY_MAX, "{took:?}");
    assert!(fleet.logs().contains("redis accepts connections again"));
}
