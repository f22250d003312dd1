//! The load of an idle deployment on Redis.

use std::time::Duration;

use tidegate_testkit::{Stack, eventually, print_figure};

use crate::alone;

const BUCKETS: f64 = 256.0;
const SAMPLE: Duration = Duration::from_secs(10);
/// Ten times the target in docs/benchmarks.md.
const COMMANDS_PER_SECOND_MAX: f64 = 500.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_idle_pumps_send_few_commands_to_redis() {
    let _alone = alone().await;
    let stack = Stack::builder().pumps(2).start().await;
    let shared_out = async || {
        let mut held = 0.0;
        for number in 0..2 {
            held += stack
                .pump(number)
                .metric("tidegate_pump_buckets_held")
                .await;
        }
        if held == BUCKETS { Ok(()) } else { Err(held) }
    };
    eventually("all buckets are led", Duration::from_secs(20), shared_out).await;
    // A pump reads each bucket once when it takes it over.
    let settled = async || match rate(&stack.redis.url(), SAMPLE / 10).await {
        rate if rate < COMMANDS_PER_SECOND_MAX => Ok(()),
        rate => Err(rate),
    };
    eventually("all buckets were read", Duration::from_secs(20), settled).await;
    let rate = rate(&stack.redis.url(), SAMPLE).await;
    print_figure(&format!(
        "idle: {rate:.0} Redis commands/s for one API, two pumps, 256 buckets, those inside scripts included"
    ));
    assert!(rate < COMMANDS_PER_SECOND_MAX, "{rate}");
    stack.finish().await;
}

/// The rate of commands over this time, per second.
async fn rate(url: &str, time: Duration) -> f64 {
    let before = commands(url);
    tokio::time::sleep(time).await;
    (commands(url) - before) / time.as_secs_f64()
}

/// The number of commands that Redis has executed since its start.
fn commands(url: &str) -> f64 {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_connection().unwrap();
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut connection)
        .unwrap();
    stats
        .split("calls=")
        .skip(1)
        .filter_map(|rest| rest.split(',').next()?.parse::<f64>().ok())
        .sum()
}
