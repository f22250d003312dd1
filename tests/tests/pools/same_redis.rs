//! A pool cannot move to itself under another name.

use std::time::Duration;

use tidegate_testkit::certificates::write_text;
use tidegate_testkit::{DaemonProgram, run_until_exit, start_redis, stop_when_logged};

const LIMIT: Duration = Duration::from_secs(60);

fn settings(from: &str, to: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n\
         [pool.default]\nurl = \"{from}\"\nmigrate_to = \"new\"\n[pool.new]\nurl = \"{to}\"\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_moves_to_its_own_redis_under_another_name_is_refused() {
    let redis = start_redis();
    let port = redis.port();
    let folder = tempfile::tempdir().unwrap();
    let (here, also_here) = (redis.url(), format!("redis://localhost:{port}"));
    let config = write_text(folder.path(), "same.toml", &settings(&here, &also_here));
    let arguments = ["--config", config.to_str().unwrap()];
    let message = run_until_exit(DaemonProgram::Api, &arguments, LIMIT).await;
    assert_eq!(message.code, Some(1), "{}", message.log);
    for words in ["pool default", "migrate_to = \"new\"", "run_id"] {
        assert!(message.log.contains(words), "{words}: {}", message.log);
    }
    // Another database of the same server is another deployment.
    let other = format!("redis://localhost:{port}/1");
    let config = write_text(folder.path(), "other.toml", &settings(&here, &other));
    let arguments = ["--config", config.to_str().unwrap()];
    let message = stop_when_logged(DaemonProgram::Api, &arguments, "ready", LIMIT).await;
    assert_eq!(message.code, Some(0), "{}", message.log);
}
