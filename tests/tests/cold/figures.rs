//! How fast payloads go and come back. `TIDEGATE_COLD_JOBS` sets the number of jobs.

use std::collections::HashMap;
use std::time::Instant;

use tidegate_testkit::{RedisControl, eventually, print_figure};

use crate::cold_stack::{ColdStack, HOUR_S, LIMIT};

const JOBS: usize = 2000;

/// All jobs are due in the same second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_of_one_second_are_frozen_thawed_and_due() {
    let jobs = std::env::var("TIDEGATE_COLD_JOBS").ok();
    let jobs = jobs.map_or(JOBS, |number| number.parse().expect("a number"));
    let cold = ColdStack::start(1, "").await;
    cold.publish(jobs, 3 * HOUR_S, 1000).await;
    let mut redis = RedisControl::connect(&cold.stack.redis.url()).await;
    cold.until_frozen(jobs).await;
    // They come back and go again, so that no publish is measured.
    cold.change_pump_config("cold_freeze = false");
    cold.stack.pump(0).restart().await;
    cold.until_thawed(jobs).await;
    cold.change_pump_config("");
    let begin = Moment::now(&mut redis).await;
    cold.stack.pump(0).restart().await;
    cold.until_frozen(jobs).await;
    begin.print("frozen", jobs, &mut redis).await;

    let begin = Moment::now(&mut redis).await;
    cold.forward(3 * HOUR_S - 240);
    cold.until_thawed(jobs).await;
    begin.print("thawed", jobs, &mut redis).await;

    let begin = Moment::now(&mut redis).await;
    cold.forward(3 * HOUR_S + 1);
    eventually("all jobs are ready", LIMIT, async || {
        match cold.queue.size().await {
            size if size == jobs as u64 => Ok(()),
            size => Err(size),
        }
    })
    .await;
    begin.print("ready", jobs, &mut redis).await;
    cold.stack.finish().await;
}

/// When something begins, and the CPU time of Redis at this time, in seconds.
struct Moment {
    at: Instant,
    cpu_s: f64,
}

impl Moment {
    async fn now(redis: &mut RedisControl) -> Self {
        Self {
            at: Instant::now(),
            cpu_s: cpu_s(&redis.info().await),
        }
    }

    async fn print(&self, what: &str, jobs: usize, redis: &mut RedisControl) {
        let seconds = self.at.elapsed().as_secs_f64();
        let cpu_us = (cpu_s(&redis.info().await) - self.cpu_s) * 1e6 / jobs as f64;
        print_figure(&format!(
            "{jobs} jobs {what} in {seconds:.2} s, {cpu_us:.1} µs of Redis each"
        ));
    }
}

fn cpu_s(info: &HashMap<String, String>) -> f64 {
    let part = |name: &str| info[name].parse::<f64>().expect("a number");
    part("used_cpu_user") + part("used_cpu_sys")
}
