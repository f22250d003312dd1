//! The conformance suite of clients: the same scenarios for each language, against real daemons. The protocol between the
//! suite and the program of a client is described in `clients/conformance/README.md`.
//!
//! | file | content |
//! |---|---|
//! | `driver` | starts the program of a client, and exchanges lines with it |
//! | `language` | how the program of each client is built and started |
//! | `ground` | the deployment and the namespace of a scenario |
//! | `answering` | a server that answers as a scenario says, and records the requests |
//! | `scenarios` | the scenarios by subject |
//!
//! `TIDEGATE_SCENARIO=NAME` runs the scenarios whose names contain NAME.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod answering;
mod driver;
mod ground;
mod language;
mod scenarios;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{FutureExt, StreamExt, stream};
use tidegate_testkit::{Stack, print_figure};

use ground::Ground;
use language::Language;
use scenarios::{Scenario, all};

/// The variable that selects scenarios.
const SCENARIO: &str = "TIDEGATE_SCENARIO";
/// How many scenarios run at a time.
const CONCURRENT: usize = 4;
/// No scenario takes longer. The longest waits for a lease of some seconds.
const SCENARIO_LIMIT: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_for_go_conforms() {
    check(Language::Go).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_for_java_conforms() {
    check(Language::Java).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_for_php_conforms() {
    check(Language::Php).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_for_python_conforms() {
    check(Language::Python).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_for_typescript_conforms() {
    check(Language::TypeScript).await;
}

#[test]
fn scenarios_have_names_of_their_own() {
    let mut names: Vec<&str> = all().iter().map(|scenario| scenario.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count >= 60, "{count} scenarios");
}

/// Runs all scenarios, and names all that fail.
async fn check(language: Language) {
    let begin = Instant::now();
    let prepared = tokio::task::spawn_blocking(move || language.prepare());
    let program = Arc::new(prepared.await.unwrap());
    let prepared = begin.elapsed();
    let stack = Stack::builder().apis(2).start().await;
    let stack = Arc::new(stack);
    let wanted = std::env::var(SCENARIO).unwrap_or_default();
    let chosen = all().into_iter().filter(|it| it.name.contains(&wanted));
    let running = chosen.map(|scenario| {
        let ground = Ground::new(Arc::clone(&stack), Arc::clone(&program), scenario.name);
        run(scenario, ground)
    });
    let ended: Vec<(&str, Result<(), String>)> = stream::iter(running)
        .buffer_unordered(CONCURRENT)
        .collect()
        .await;
    let count = ended.len();
    let failed = ended
        .into_iter()
        .filter_map(|(name, end)| Some((name, end.err()?)));
    let failed: Vec<String> = failed.map(|(name, why)| format!("{name}: {why}")).collect();
    print_figure(&format!(
        "{language:?}: {} of {count} scenarios passed, prepared in {prepared:.1?}, run in {:.1?}",
        count - failed.len(),
        begin.elapsed() - prepared,
    ));
    assert!(count > 0, "no scenario has {wanted:?} in its name");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

async fn run(scenario: Scenario, ground: Ground) -> (&'static str, Result<(), String>) {
    let running = async { (scenario.run)(ground.open().await).await };
    let running = tokio::time::timeout(SCENARIO_LIMIT, running);
    let ended = match AssertUnwindSafe(running).catch_unwind().await {
        Ok(ended) => ended.map_err(|_| format!("it has not ended within {SCENARIO_LIMIT:?}")),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            Err(text
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default())
        }
    };
    (scenario.name, ended)
}
