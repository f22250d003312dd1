//! A token is revoked while consumers wait with it.

use std::time::{Duration, Instant};

use tidegate_testkit::{
    Answer, Daemon, QueueClient, RawHttp, Stack, connect_to_redis, print_figure,
};

use crate::parked::{Parked, park};

/// A revocation ends waits within one second. The rest is room for a busy machine; without the revocation, waits would
/// last for [`TIMEOUT_S`].
const ENDED_WITHIN: Duration = Duration::from_secs(5);
const INVALID: &str = r#"{"error":"invalid token"}"#;
const TIMEOUT_S: u64 = 60;

async fn delete(api: &Daemon, queue: &QueueClient) {
    let path = format!("/token/{}/{}", queue.namespace(), queue.token());
    admin(api, "DELETE", &path).await.expect(204);
}

async fn admin(api: &Daemon, method: &str, path: &str) -> Answer {
    let mut http = RawHttp::connect(api.admin()).await;
    http.request(method, path, &[], b"").await;
    http.answer().await.unwrap()
}

/// Deletes all tokens of a namespace in Redis: no process of Tidegate is notified.
async fn delete_in_redis(stack: &Stack, namespace: &str) {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let key = format!("tg:tokens:default/{namespace}");
    let deleted: u64 = redis::cmd("DEL")
        .arg(key)
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(deleted, 1);
}

/// Expects that all are answered 401, and returns the time from `since` to the last answer.
async fn all_refused(parked: Vec<Parked>, since: Instant) -> Duration {
    let mut last = Duration::ZERO;
    for consumer in parked {
        let outcome = consumer.outcome().await;
        assert_eq!(outcome.answer.expect(401).text(), INVALID);
        last = last.max(outcome.at.saturating_duration_since(since));
    }
    last
}

async fn a_revocation_ends_waits_in_every_process(config: &str) {
    let stack = Stack::builder().apis(2).api_config(config).start().await;
    let revoked = stack.queue("q").await;
    let kept = stack.queue_in(revoked.namespace(), "q").await;
    let (here, there) = (stack.api(0), stack.api(1));
    let parked_here = park(here, std::slice::from_ref(&revoked), 5, TIMEOUT_S).await;
    let parked_there = park(there, std::slice::from_ref(&revoked), 20, TIMEOUT_S).await;
    let with_another_token = Parked::start(there, &kept.sibling("other"), TIMEOUT_S).await;
    there.wait_for_waiting_consumers(21).await;

    let revoked_at = Instant::now();
    delete(here, &revoked).await;
    let here_after = all_refused(parked_here, revoked_at).await;
    let there_after = all_refused(parked_there, revoked_at).await;
    print_figure(&format!(
        "revoked: waits ended after {here_after:?} in the process that was asked, {there_after:?} in the other"
    ));
    assert!(here_after < ENDED_WITHIN, "{here_after:?}");
    assert!(there_after < ENDED_WITHIN, "{there_after:?}");

    kept.publish("1").tries(1).id().await;
    let job = kept.consume().job().await.unwrap();
    assert_eq!(job.text(), "1");
    assert!(with_another_token.is_waiting());
    kept.sibling("other").publish("2").id().await;
    with_another_token.outcome().await.answer.expect(200);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_ends_the_waits_of_every_process() {
    a_revocation_ends_waits_in_every_process("").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_of_a_hashed_token_ends_the_waits_of_every_process() {
    a_revocation_ends_waits_in_every_process("hash_tokens = true").await;
}

/// No process is notified: each one looks up the tokens of its parked consumers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_deleted_in_redis_ends_the_waits_of_its_consumers() {
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let revoked = stack.queue("q").await;
    let kept = stack.queue("q").await;
    let parked = park(api, std::slice::from_ref(&revoked), 10, TIMEOUT_S).await;
    let others = Parked::start(api, &kept, TIMEOUT_S).await;
    api.wait_for_waiting_consumers(11).await;
    let revoked_at = Instant::now();
    delete_in_redis(&stack, revoked.namespace()).await;
    let last = all_refused(parked, revoked_at).await;
    assert!(last < ENDED_WITHIN, "{last:?}");
    kept.publish("1").id().await;
    others.outcome().await.answer.expect(200);
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_arrives_as_its_wait_ends_loses_no_attempt() {
    const ROUNDS: usize = 40;
    let stack = Stack::builder().start().await;
    let api = stack.api(0);
    let kept = stack.queue("q").await;
    let mut refused = 0;
    for round in 0..ROUNDS {
        let revoked = stack.queue_in(kept.namespace(), "q").await;
        let parked = Parked::start(api, &revoked, TIMEOUT_S).await;
        api.wait_for_waiting_consumers(1).await;
        let publish = kept.publish(round.to_string()).tries(1);
        let is_before = round % 2 == 0;
        let id = if is_before {
            delete(api, &revoked).await;
            publish.id().await
        } else {
            tokio::join!(delete(api, &revoked), publish.id()).1
        };
        let outcome = parked.outcome().await;
        if is_before {
            // The process that deletes a token ends its own waits before it answers.
            assert_eq!(outcome.answer.status, 401, "{}", outcome.answer);
        }
        if outcome.answer.status == 401 {
            refused += 1;
            let job = kept.consume().timeout_s(5).job().await.unwrap();
            assert_eq!(job.id, id, "the job is there with its only try");
        } else {
            outcome.answer.expect(200);
        }
        kept.ack(&id).await;
    }
    print_figure(&format!(
        "{refused} of {ROUNDS} waits ended before their job came"
    ));
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn look_ups_of_a_token_do_not_grow_with_its_consumers() {
    const TOKENS: usize = 3;
    const SAMPLE: Duration = Duration::from_secs(4);
    let stack = Stack::builder().pumps(0).start().await;
    let api = stack.api(0);
    let mut queues = Vec::new();
    for _ in 0..TOKENS {
        queues.push(stack.queue("q").await);
    }
    assert_eq!(look_ups_within(&stack, SAMPLE / 2).await, 0);
    let parked = park(api, &queues, 100, TIMEOUT_S).await;
    let look_ups = look_ups_within(&stack, SAMPLE).await;
    let of_each_second = look_ups as f64 / TOKENS as f64 / SAMPLE.as_secs_f64();
    print_figure(&format!(
        "{} consumers with {TOKENS} tokens: {of_each_second:.1} look-ups of each token a second",
        parked.len()
    ));
    assert!((1.0..=3.0).contains(&of_each_second), "{of_each_second}");
    for queue in &queues {
        delete(api, queue).await;
    }
    all_refused(parked, Instant::now()).await;
    api.wait_for_waiting_consumers(0).await;
    assert_eq!(look_ups_within(&stack, SAMPLE / 2).await, 0);
    stack.finish().await;
}

/// The number of look-ups of tokens in Redis within this time.
async fn look_ups_within(stack: &Stack, time: Duration) -> u64 {
    let before = look_ups(stack).await;
    tokio::time::sleep(time).await;
    look_ups(stack).await - before
}

async fn look_ups(stack: &Stack) -> u64 {
    let client = redis::Client::open(stack.redis.url()).unwrap();
    let mut connection = connect_to_redis(&client).await.unwrap();
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query_async(&mut connection)
        .await
        .unwrap();
    let mut lines = stats.lines();
    let calls = lines.find_map(|line| line.strip_prefix("cmdstat_hexists:calls="));
    calls.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}
