//! Pumps are killed while schedules publish: each tick has one job.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, UNIX_EPOCH};

use rand::RngExt;
use serde_json::{Value, json};
use tidegate_testkit::{
    NativeClient, RedisControl, Stack, connect_to_redis, eventually, print_figure, random,
};

use crate::pumps_disturbed::LEASE;

const PUMPS: usize = 3;
const KILLS: usize = 100;
const EVERY_MS: u64 = 200;
/// Bounds the time in which all ticks must be caught up after the last kill.
const LIMIT: Duration = Duration::from_secs(60);
/// A run of a bucket takes milliseconds.
const LATE_MAX: Duration = Duration::from_secs(10);

/// Reserves and acknowledges the jobs of a queue until the job of a tick at or after `until_ms` has come, counting the
/// jobs of each tick.
async fn count_jobs(client: &NativeClient, ticks: &mut BTreeMap<u64, u32>, until_ms: u64) {
    let begin = Instant::now();
    while ticks
        .last_key_value()
        .is_none_or(|(tick, _)| *tick < until_ms)
    {
        assert!(
            begin.elapsed() < LIMIT,
            "no job of a tick after {until_ms}: {ticks:?}"
        );
        let jobs = client.reserve("polls", 256).await;
        let leases: Vec<&Value> = jobs.iter().map(|job| &job["lease"]).collect();
        for job in &jobs {
            let tick = job["attributes"]["tidegate-tick-ms"].as_str().unwrap();
            *ticks.entry(tick.parse().unwrap()).or_default() += 1;
        }
        if !leases.is_empty() {
            client.settle("ack", &json!({"leases": leases})).await;
        }
    }
}

/// At `maxmemory` Redis refuses the jobs of ticks, and accepts what other timers need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_that_redis_refuses_delay_no_other_job() {
    const SCHEDULES: usize = 64;
    const QUEUES: usize = 16;
    const DELAY: Duration = Duration::from_secs(10);
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    for number in 0..SCHEDULES {
        let schedule = json!({"queue": format!("s{number}"), "every": "1s", "job": {"payload": 1}, "overlap": "allow"});
        let path = format!("/schedules/s{number}");
        client.call("PUT", &path, &schedule).await.expect(201);
    }
    let due_at = Instant::now() + DELAY;
    let delay = format!("delay={}ms", DELAY.as_millis());
    for number in 0..QUEUES {
        let published = client.publish(&format!("q{number}"), &delay, "1").await;
        published.expect(201);
    }
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    control.limit_memory(Some(0)).await;
    let queues: Vec<Value> = (0..QUEUES)
        .map(|it| json!({"name": format!("q{it}")}))
        .collect();
    let body = json!({"queues": queues, "max_jobs": QUEUES, "wait": "1s", "lease": "10m"});
    let mut found = 0;
    while found < QUEUES {
        let late = Instant::now().saturating_duration_since(due_at);
        assert!(late < LATE_MAX, "{found} of {QUEUES} jobs after {late:?}");
        let reserved = client
            .call("POST", "/reserve", &body)
            .await
            .expect(200)
            .json();
        found += reserved["jobs"].as_array().unwrap().len();
    }
    let late = Instant::now().saturating_duration_since(due_at);
    let failed = stack
        .pump(0)
        .metric("tidegate_pump_failed_runs_total")
        .await;
    print_figure(&format!(
        "beside {failed} refused ticks all jobs came within {late:?}"
    ));
    assert!(failed > 0.0, "no tick was refused");
    // Ticks are published again once there is memory.
    control.limit_memory(None).await;
    client.reserve("s0", 256).await;
    eventually("a tick is published", LIMIT, async || {
        match client.reserve("s0", 1).await.len() {
            0 => Err("none"),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_tick_has_one_job_while_pumps_are_killed_a_hundred_times() {
    let stack = Stack::builder().pumps(PUMPS).lease(LEASE).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let schedule = json!({
        "queue": "polls", "every": format!("{EVERY_MS}ms"), "job": {"payload": 1}, "overlap": "allow", "catch_up": "all",
    });
    client
        .call("PUT", "/schedules/polls", &schedule)
        .await
        .expect(201);
    let mut random = random("schedules");
    let mut ticks = BTreeMap::new();
    count_jobs(&client, &mut ticks, 1).await;
    let begin = Instant::now();
    for _ in 0..KILLS {
        let pump = stack.pump(random.random_range(0..PUMPS));
        pump.kill();
        let pause = random.random_range(0..300);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        pump.restart().await;
    }
    let killed_for = begin.elapsed();
    let (first_ms, _) = ticks.first_key_value().unwrap();
    let first_ms = *first_ms;
    let until_ms = first_ms + u64::try_from(killed_for.as_millis()).unwrap() / EVERY_MS * EVERY_MS;
    count_jobs(&client, &mut ticks, until_ms).await;
    client
        .send("DELETE", "/schedules/polls", &[], b"")
        .await
        .expect(200);
    let last_ms = *ticks.last_key_value().unwrap().0;
    let expected: Vec<(u64, u32)> = (first_ms..=last_ms)
        .step_by(usize::try_from(EVERY_MS).unwrap())
        .map(|tick| (tick, 1))
        .collect();
    let found: Vec<(u64, u32)> = ticks.into_iter().collect();
    print_figure(&format!(
        "{KILLS} kills of {PUMPS} pumps in {killed_for:?}: {} ticks, each with one job",
        found.len()
    ));
    assert_eq!(found, expected);
    stack.finish().await;
}

/// What is due in one bucket and cannot be published is tried again each second, and must not hold up what can be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_whose_table_is_damaged_delay_no_others_and_are_kept() {
    /// More than a run publishes.
    const DAMAGED: usize = 40;
    let settings = "[pool.default]\nbuckets = 1\n";
    let stack = Stack::builder().api_config(settings).pump_config(settings);
    let stack = stack.start().await;
    let client = NativeClient::new(stack.api(0), "*").await;
    let of = |namespace| NativeClient::with_key(stack.api(0), namespace, client.key());
    let (damaged, unreadable, good) = (of("damaged"), of("unreadable"), of("good"));
    let put = async |client: &NativeClient, name: &str| {
        let schedule = json!({"queue": name, "every": "1s", "job": {"payload": 1}});
        let path = format!("/schedules/{name}");
        client.call("PUT", &path, &schedule).await.expect(201);
    };
    for number in 0..DAMAGED {
        put(&damaged, &format!("s{number:02}")).await;
    }
    put(&unreadable, "s").await;
    put(&good, "s").await;
    let redis = redis::Client::open(stack.redis.url()).unwrap();
    let mut redis = connect_to_redis(&redis).await.unwrap();
    let mut query = async |words: &[&str]| {
        let command = redis::cmd(words[0]).arg(&words[1..]).to_owned();
        let value: redis::Value = command.query_async(&mut redis).await.unwrap();
        value
    };
    query(&["SET", "tg:schedules:damaged", "x"]).await;
    query(&["HSET", "tg:schedules:unreadable", "s", "of another release"]).await;
    let log = async || stack.pump(0).log();
    eventually("the definition was looked at", LIMIT, async || {
        match log().await.contains("cannot be read") {
            true => Ok(()),
            false => Err("not yet"),
        }
    })
    .await;
    for _ in 0..3 {
        eventually(
            "a tick of the others is published",
            LIMIT,
            async || match good.reserve("s", 1).await.pop() {
                None => Err("none"),
                Some(job) => {
                    good.settle("ack", &json!({"leases": [job["lease"]]})).await;
                    Ok(())
                }
            },
        )
        .await;
    }
    // Another release may read it.
    let script =
        "return redis.call('ZSCORE', redis.call('KEYS', 'tg:0:*:ticks:unreadable')[1], 's')";
    let kept = query(&["EVAL", script, "0"]).await;
    assert_ne!(kept, redis::Value::Nil, "its tick is kept");
}

/// The schedules of a namespace have thousands of ticks a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_of_one_namespace_do_not_delay_those_of_another() {
    const FLOODING: usize = 400;
    const WATCHED: Duration = Duration::from_secs(15);
    /// A run of a bucket with a backlog takes milliseconds.
    const TICK_LATE_MAX: Duration = Duration::from_secs(2);
    let settings = "[pool.default]\nbuckets = 1\n";
    let stack = Stack::builder().api_config(settings).pump_config(settings);
    let stack = stack.start().await;
    let client = NativeClient::new(stack.api(0), "*").await;
    let of = |namespace| NativeClient::with_key(stack.api(0), namespace, client.key());
    let (flood, victim) = (of("flood"), of("victim"));
    let put = async |client: &NativeClient, name: &str, every: &str, overlap: &str| {
        let schedule =
            json!({"queue": "q", "every": every, "job": {"payload": 1}, "overlap": overlap});
        let path = format!("/schedules/{name}");
        client.call("PUT", &path, &schedule).await.expect(201);
    };
    for number in 0..FLOODING {
        put(&flood, &format!("s{number}"), "100ms", "keep").await;
    }
    put(&victim, "s", "1s", "allow").await;
    let (begin, mut ticks, mut latest) = (Instant::now(), Vec::new(), Duration::ZERO);
    while begin.elapsed() < WATCHED {
        for job in victim.reserve("q", 256).await {
            let tick = job["attributes"]["tidegate-tick-ms"].as_str().unwrap();
            let tick_ms: u64 = tick.parse().unwrap();
            let due_at = UNIX_EPOCH + Duration::from_millis(tick_ms);
            latest = latest.max(due_at.elapsed().unwrap_or_default());
            ticks.push(tick_ms);
        }
    }
    let flooded = stack
        .pump(0)
        .metric("tidegate_pump_schedule_ticks_total")
        .await;
    print_figure(&format!(
        "of {flooded} ticks {} are of the other namespace, the latest after {latest:?}",
        ticks.len()
    ));
    assert!(ticks.is_sorted_by(|a, b| a + 1000 == *b), "{ticks:?}");
    assert!(latest < TICK_LATE_MAX, "{latest:?}");
    stack.finish().await;
}
