//! Wrong wall clocks of daemons and of Redis.

use std::time::{Duration, Instant, SystemTime};

use tidegate_testkit::{
    Daemon, DaemonProgram, QueueClient, RedisOptions, Stack, WallClock, eventually, print_figure,
    start_redis,
};

const HOUR_S: i64 = 3600;
/// How far apart two readings of the same clock may be in this test.
const SLACK: Duration = Duration::from_secs(600);
const LATE_MAX: Duration = Duration::from_secs(5);

/// The clock of one daemon is an hour ahead, that of the other an hour behind. Their logs show it.
#[expect(
    clippy::disallowed_methods,
    reason = "compared with the clocks of daemons"
)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_on_time_while_the_clocks_of_daemons_are_wrong() {
    let redis = start_redis();
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
    let api = start(DaemonProgram::Api, "api", HOUR_S).await;
    let pump = start(DaemonProgram::Pumpd, "pump", -HOUR_S).await;
    let hour = Duration::from_secs(HOUR_S.unsigned_abs());
    expect_clock(&api, SystemTime::now() + hour).await;
    expect_clock(&pump, SystemTime::now() - hour).await;

    let queue = QueueClient::with_new_token(&api, "default", "clocks", "q").await;
    let due_at = Instant::now() + Duration::from_secs(1);
    let id = queue.publish("x").delay_s(1).tries(2).id().await;
    let job = queue.consume().ttr_s(1).timeout_s(20).job().await.unwrap();
    let late = Instant::now().checked_duration_since(due_at);
    let late = late.expect("never early");
    assert_eq!(job.id, id);
    assert!(late < LATE_MAX, "{late:?}");
    // Its lease expires in time, too.
    let lease_began_at = Instant::now();
    let again = queue.consume().timeout_s(20).job().await.unwrap();
    let lease = lease_began_at.elapsed();
    assert_eq!((again.id, again.remain_tries), (id, 0));
    assert!(lease < Duration::from_secs(1) + LATE_MAX, "{lease:?}");
    print_figure(&format!(
        "clocks an hour off: {late:?} late, a lease of 1 s ended after {lease:?}"
    ));
}

/// The clock of Redis is set back and forward again. In between the pump reads the bucket, and the next job seems to be
/// due in a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_on_time_after_the_clock_of_redis_was_set_forward() {
    const DELAY: Duration = Duration::from_secs(5);
    const BACK_S: i64 = -60;
    let folder = tempfile::tempdir().unwrap();
    let clock = WallClock::new(folder.path(), "redis");
    let redis = RedisOptions::new().clock(&clock);
    let stack = Stack::builder().redis(redis).start().await;
    let queue = stack.queue("q").await;
    let due_at = Instant::now() + DELAY;
    let id = queue.publish("x").delay_s(DELAY.as_secs()).id().await;
    clock.set(BACK_S);
    // It is due before the other one, so an alarm makes the pump read the bucket.
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

/// The first line of the log has about this time. A daemon may work before it has written that line.
async fn expect_clock(daemon: &Daemon, now: SystemTime) {
    let first_line = async || {
        let log = daemon.log();
        let first = log.split_once('\n').map(|(line, _)| line.to_owned());
        first.ok_or("no line of log")
    };
    let line = eventually("a line of log", LATE_MAX, first_line).await;
    let stamp = line.split_whitespace().next().expect("a line of words");
    let logged: jiff::Timestamp = stamp.parse().expect("a line begins with its time");
    let off = match SystemTime::from(logged).duration_since(now) {
        Ok(ahead) => ahead,
        Err(error) => error.duration(),
    };
    assert!(off < SLACK, "{stamp} is {off:?} off");
}
