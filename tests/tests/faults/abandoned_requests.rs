//! Clients time out, and most send their request again, while the Redis of the jobs is unavailable. Tokens are
//! in another Redis, so every request reaches the batcher.
//!
//! A publish whose client has left may be stored only if it was in a call to Redis. In an outage a queue has at
//! most two rounds of calls: those that were in flight when the connection failed, and those that wait for a
//! connection when Redis is back.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tidegate_testkit::{
    PublishBuilder, QueueClient, RawHttp, RedisServer, Stack, eventually, print_figure, start_redis,
};
use tokio::time::{sleep, timeout};

/// The number of clients. Each of them publishes until one job is stored.
const WANTED: u64 = 100;
/// How long a client waits for an answer. From the end of the outage on clients wait until they are answered: one that
/// leaves then while its job is in a call stores another, and how many do depends on the speed of the machine.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Between an error and the next attempt.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long clients leave.
const LEAVING: Duration = Duration::from_secs(7);
/// From then until Redis is back: an API that has no processor for a second knows by then who has left.
const SETTLING: Duration = Duration::from_secs(2);
/// The id of a job that does not exist.
const OTHER_ID: &str = "01M7YAG1QB00PG00001X143D2D";
/// Rounds of calls in an outage.
const ROUNDS: u64 = 2;
/// The most jobs in the call that a queue with one lane has in flight.
const JOBS_PER_CALL: u64 = 64;
/// The most calls that a queue has in flight for publishes that are not batched. Each carries one of them.
const ALONE_CALLS: u64 = 16;

#[derive(Clone, Copy)]
enum Outage {
    /// Redis is stopped (SIGSTOP): connections stay open, nothing is answered.
    Paused,
    /// Redis is killed, and started again.
    Killed,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_redis_stores_few_publishes_of_clients_that_left() {
    let stored = stored_after(Outage::Paused, |queue| queue.publish("x")).await;
    let stored_max = WANTED + ROUNDS * JOBS_PER_CALL;
    assert!((WANTED..=stored_max).contains(&stored), "{stored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_stores_few_publishes_of_clients_that_left() {
    let stored = stored_after(Outage::Killed, |queue| queue.publish("x")).await;
    let stored_max = WANTED + ROUNDS * JOBS_PER_CALL;
    assert!((WANTED..=stored_max).contains(&stored), "{stored}");
}

/// A replacement is not batched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_redis_stores_few_replacements_of_clients_that_left() {
    let stored = stored_after(Outage::Paused, |queue| queue.republish(OTHER_ID, "x")).await;
    let stored_max = WANTED + ROUNDS * ALONE_CALLS;
    assert!((WANTED..=stored_max).contains(&stored), "{stored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_of_a_client_that_left_is_not_executed() {
    /// Time to reach the batcher, and to leave it: no metric counts waiting acks.
    const PAUSE: Duration = Duration::from_millis(1500);
    // The call in flight waits for as long as Redis is paused.
    let (stack, _tokens) = start_with("[pool.default]\ncommand_timeout = \"1m\"\n").await;
    let queue = stack.queue("q").await;
    let [first, second] = [queue.publish("a").id().await, queue.publish("b").id().await];
    let ack = async |id: &str| {
        let mut http = RawHttp::connect(stack.api(0).listen()).await;
        let token = [("X-Token".to_owned(), queue.token().to_owned())];
        let path = format!("{}/job/{id}", queue.path());
        http.request("DELETE", &path, &token, b"").await;
        sleep(PAUSE).await;
        http
    };
    stack.redis.pause().unwrap();
    let mut in_call = ack(&first).await;
    drop(ack(&second).await);
    sleep(PAUSE).await;
    stack.redis.resume().unwrap();
    in_call.answer().await.unwrap().expect(204);
    queue.peek_job(&first).await.expect(404);
    queue.peek_job(&second).await.expect(200);
    stack.finish().await;
}

/// A stack whose tokens are in another Redis.
async fn start() -> (Stack, RedisServer) {
    start_with("").await
}

/// The same, with these lines in the configuration of the API.
async fn start_with(lines: &str) -> (Stack, RedisServer) {
    let tokens = start_redis();
    let config = format!("{lines}[admin_store]\nurl = \"{}\"", tokens.url());
    let builder = Stack::builder().pumps(0).api_config(&config);
    (builder.start().await, tokens)
}

/// How many jobs are stored when every client has been answered 201 once.
async fn stored_after(outage: Outage, request: fn(&QueueClient) -> PublishBuilder) -> u64 {
    let (mut stack, _tokens) = start().await;
    let queue = stack.queue("q").await;
    match outage {
        Outage::Paused => stack.redis.pause().unwrap(),
        Outage::Killed => tokio::task::block_in_place(|| stack.redis.kill()),
    }
    let clients_stay = Arc::new(AtomicBool::new(false));
    let clients = (0..WANTED).map(|number| {
        let queue = queue.with_separate_connections();
        let clients_stay = Arc::clone(&clients_stay);
        tokio::spawn(async move {
            sleep(CLIENT_TIMEOUT * number as u32 / WANTED as u32).await;
            attempts_until_stored(&queue, request, &clients_stay).await
        })
    });
    let clients: Vec<_> = clients.collect();
    sleep(LEAVING).await;
    clients_stay.store(true, Ordering::SeqCst);
    sleep(SETTLING).await;
    match outage {
        Outage::Paused => stack.redis.resume().unwrap(),
        Outage::Killed => tokio::task::block_in_place(|| stack.redis.restart().unwrap()),
    }
    let attempts = join_all(clients).await.into_iter().map(Result::unwrap);
    let attempts: u64 = attempts.sum();
    let stored = settled_size(&queue).await;
    print_figure(&format!(
        "clients that left: {attempts} attempts for {WANTED} jobs, {stored} stored"
    ));
    assert!(attempts > 3 * WANTED, "the outage was too short");
    stack.finish().await;
    stored
}

async fn attempts_until_stored(
    queue: &QueueClient,
    request: fn(&QueueClient) -> PublishBuilder,
    clients_stay: &AtomicBool,
) -> u64 {
    for attempt in 1.. {
        let mut sent = pin!(request(queue).send());
        let answer = match timeout(CLIENT_TIMEOUT, &mut sent).await {
            Err(_) if clients_stay.load(Ordering::SeqCst) => sent.await,
            Err(_) => continue,
            Ok(answer) => answer,
        };
        match answer {
            Ok(answer) if answer.status == 201 => return attempt,
            _ => sleep(RETRY_DELAY).await,
        }
    }
    unreachable!("the attempts do not end")
}

/// The size of a queue once nothing is added to it any more.
async fn settled_size(queue: &QueueClient) -> u64 {
    let settled = async || {
        let before = queue.size().await;
        sleep(Duration::from_millis(500)).await;
        match queue.size().await {
            after if after == before => Ok(after),
            after => Err(after),
        }
    };
    eventually("no more jobs are stored", Duration::from_secs(30), settled).await
}
