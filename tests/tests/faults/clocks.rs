//! Wall clocks are wrong: no job notices.

use std::time::{Duration, Instant, SystemTime};

use tidegate_testkit::{
    Daemon, Program, Queue, RedisOptions, Stack, WallClock, eventually, figure, redis,
};

use crate::turn;

const HOUR_S: i64 = 3600;
/// How far apart two readings of the same clock may be in this test.
const SLACK: Duration = Duration::from_secs(600);
const LATE_MAX: Duration = Duration::from_secs(5);

/// One daemon is an hour ahead, the other an hour behind. Their logs show it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_come_in_time_where_every_clock_is_wrong() {
    let _turn = turn().await;
    let redis = redis();
    let folder = tempfile::tempdir().unwrap();
    let start = async |program, name: &str, ahead_s| {
        let clock = WallClock::new(folder.path(), name);
        clock.set(ahead_s);
        let environment = clock.environment();
        let environment = environment
            .each_ref()
            .map(|(key, value)| (*key, value.as_str()));
        let arguments = ["--redis".to_owned(), redis.url()];
        Daemon::start_with(program, name, &arguments, &environment, folder.path()).await
    };
    let api = start(Program::Api, "api", HOUR_S).await;
    let pump = start(Program::Pumpd, "pump", -HOUR_S).await;
    let hour = Duration::from_secs(HOUR_S.unsigned_abs());
    expect_clock(&api, SystemTime::now() + hour).await;
    expect_clock(&pump, SystemTime::now() - hour).await;

    let queue = Queue::with_new_token(&api, "default", "clocks", "q").await;
    let due_at = Instant::now() + Duration::from_secs(1);
    let id = queue.publish("x").delay_s(1).tries(2).id().await;
    let job = queue.consume().ttr_s(1).timeout_s(20).job().await.unwrap();
    let late = Instant::now().checked_duration_since(due_at);
    let late = late.expect("never early");
    assert_eq!(job.id, id);
    assert!(late < LATE_MAX, "{late:?}");
    // Its lease ends in time, too.
    let lease_began_at = Instant::now();
    let again = queue.consume().timeout_s(20).job().await.unwrap();
    let lease = lease_began_at.elapsed();
    assert_eq!((again.id, again.remain_tries), (id, 0));
    assert!(lease < Duration::from_secs(1) + LATE_MAX, "{lease:?}");
    figure(&format!(
        "clocks an hour off: {late:?} late, a lease of 1 s ended after {lease:?}"
    ));
}

/// The clock of Redis is set back and forward again. Meanwhile the pump looks at the bucket, and the next job seems to be
/// due in a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_comes_in_time_after_the_clock_of_redis_was_set_forward() {
    const DELAY: Duration = Duration::from_secs(5);
    const BACK_S: i64 = -60;
    let _turn = turn().await;
    let folder = tempfile::tempdir().unwrap();
    let clock = WallClock::new(folder.path(), "redis");
    let redis = RedisOptions::new().clock(&clock);
    let stack = Stack::builder().redis(redis).start().await;
    let queue = stack.queue("q").await;
    let due_at = Instant::now() + DELAY;
    let id = queue.publish("x").delay_s(DELAY.as_secs()).id().await;
    clock.set(BACK_S);
    // It is due before the other one, so the pump is told to look, and does when it is due.
    let probe = queue.publish("probe").delay_s(1).id().await;
    assert_eq!(queue.consume().timeout_s(20).job().await.unwrap().id, probe);
    queue.ack(&probe).await;
    clock.set(0);
    let job = queue.consume().timeout_s(30).job().await;
    assert_eq!(job.expect("the job becomes ready").id, id);
    let late = Instant::now().checked_duration_since(due_at);
    let late = late.expect("never early");
    assert!(late < 2 * LATE_MAX, "{late:?}");
    queue.ack(&id).await;
    stack.finish().await;
}

/// The first line of its log has about this time. A daemon may be at work before that is written.
async fn expect_clock(daemon: &Daemon, now: SystemTime) {
    let first_line = async || {
        let log = daemon.log();
        let first = log.split_once('\n').map(|(line, _)| line.to_owned());
        first.ok_or("no line of log")
    };
    let line = eventually("a line of log", LATE_MAX, first_line).await;
    let stamp = line.split_whitespace().next().expect("a line of words");
    let logged = humantime::parse_rfc3339(stamp).expect("a line begins with its time");
    let off = match logged.duration_since(now) {
        Ok(ahead) => ahead,
        Err(error) => error.duration(),
    };
    assert!(off < SLACK, "{stamp} is {off:?} off");
}
