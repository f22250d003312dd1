//! The example of the README is a program, and that program runs, on a server of the kind that tests of users start.

use std::process::Command;

use tidegate::JobState;
use tidegate::testing::Server;
use tidegate_testkit::start_redis;

/// The Rust code of the README.
fn example(readme: &str) -> &str {
    let (_, rest) = readme.split_once("```rust,no_run\n").expect("an example");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_readme_and_the_example_agree() {
    let program = include_str!("../examples/close_orders.rs");
    let code = program.find("use std::time").map(|start| &program[start..]);
    assert_eq!(Some(example(include_str!("../README.md"))), code);
}

#[tokio::test]
async fn the_example_runs() {
    let redis = tokio::task::spawn_blocking(start_redis).await.unwrap();
    let server = Server::builder()
        .redis_url(redis.url())
        .start()
        .await
        .unwrap();
    let client = server.client("shop").await.unwrap();
    let key = server.key("shop").await.unwrap();
    // Ready at once, so that the worker of the example runs it.
    let job = client.publish_raw("close-unpaid", "{\"order\":18}", "application/json");
    let job = job
        .retain(std::time::Duration::from_secs(60))
        .await
        .unwrap();
    let running = std::env::current_exe().unwrap();
    let program = running
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/close_orders");
    let missing = "build it first: cargo build -p tidegate --examples";
    assert!(
        program.is_file(),
        "{} is missing: {missing}",
        program.display()
    );
    let url = server.url();
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(program);
        command.env("TG_URL", url).env("TG_KEY", key);
        command.output().unwrap()
    });
    let output = ran.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("is due at"));
    assert_eq!(job.show().await.unwrap().state, JobState::Done);
    let jobs = client
        .queue("close-unpaid")
        .unwrap()
        .stats()
        .await
        .unwrap()
        .jobs;
    assert_eq!((jobs.delayed, jobs.ready, jobs.leased), (0, 0, 0));
}

/// Each piece of code of the guide is a part of the example.
#[test]
fn the_guide_and_its_example_agree() {
    let guide = include_str!("../../../docs/workers.md");
    let program = include_str!("../examples/workers.rs");
    let blocks: Vec<&str> = guide.split("```rust\n").skip(1).collect();
    assert_eq!(blocks.len(), 5);
    for block in blocks {
        let code = block.split("```").next().unwrap();
        assert!(program.contains(code), "not in the example:\n{code}");
    }
}
