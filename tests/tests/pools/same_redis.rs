//! A pool cannot move to itself under another name.

use std::time::Duration;

use tidegate_testkit::certificates::written;
use tidegate_testkit::{Program, redis, run_to_end, stop_when_said};

const LIMIT: Duration = Duration::from_secs(60);

fn settings(from: &str, to: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
         [pool.default]\nurl = \"{from}\"\nmigrate_to = \"new\"\n[pool.new]\nurl = \"{to}\"\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_moves_to_its_own_redis_under_another_name_is_refused() {
    let redis = redis();
    let port = redis.port();
    let folder = tempfile::tempdir().unwrap();
    let (here, also_here) = (redis.url(), format!("redis://localhost:{port}"));
    let config = written(folder.path(), "same.toml", &settings(&here, &also_here));
    let arguments = ["--config", config.to_str().unwrap()];
    let said = run_to_end(Program::Api, &arguments, LIMIT).await;
    assert_eq!(said.code, Some(1), "{}", said.log);
    for words in ["pool default", "migrate_to = \"new\"", "run_id"] {
        assert!(said.log.contains(words), "{words}: {}", said.log);
    }
    // Another database of the same server holds other jobs.
    let other = format!("redis://localhost:{port}/1");
    let config = written(folder.path(), "other.toml", &settings(&here, &other));
    let arguments = ["--config", config.to_str().unwrap()];
    let said = stop_when_said(Program::Api, &arguments, "ready", LIMIT).await;
    assert_eq!(said.code, Some(0), "{}", said.log);
}
