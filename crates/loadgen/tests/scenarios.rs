//! Runs every scenario briefly against real daemons. Each must end with valid figures; their values are not
//! checked.

use std::process::Command;

use clap::Parser;
use tidegate_loadgen::{LoadgenResults, Scenario, ServerOptions, plot, run, table};
use tidegate_testkit::{SharedStack, Stack, print_figure};

/// Two pumps, as in a deployment.
static SHARED: SharedStack = SharedStack::new(|| Stack::builder().pumps(2));

#[derive(Debug, Parser)]
struct ScenarioArgs {
    #[command(subcommand)]
    scenario: Scenario,
}

fn server(stack: &Stack) -> ServerOptions {
    let redis = stack.redis.pid().expect("redis runs");
    ServerOptions {
        url: stack.api(0).url(),
        admin: Some(stack.api(0).admin_url()),
        redis: Some(stack.redis.url()),
        processes: vec![
            ("api".to_owned(), stack.api(0).pid()),
            ("pump".to_owned(), stack.pump(0).pid()),
            ("redis".to_owned(), redis),
        ],
        ..ServerOptions::default()
    }
}

/// Runs a scenario with these flags and expects these figures.
async fn expect(flags: &str, figures: &[&str]) -> LoadgenResults {
    let stack = SHARED.acquire().await;
    let words = std::iter::once("loadgen").chain(flags.split_whitespace());
    let scenario = ScenarioArgs::parse_from(words).scenario;
    let outcome = run(&scenario, &server(&stack), None, 1, true)
        .await
        .unwrap_or_else(|error| panic!("{flags}: {error}"));
    let text = table(&outcome);
    print_figure(&text);
    assert!(outcome.is_valid(), "{text}");
    for name in figures {
        let value = outcome.reports[0].value(name);
        assert!(
            value.is_some_and(f64::is_finite),
            "{name} is {value:?}:\n{text}"
        );
    }
    outcome
}

#[tokio::test]
async fn publish_closed_and_open() {
    let figures = [
        "publish",
        "publish latency p99",
        "publish: CPU of redis per 1000 jobs",
        "publish: own CPU per 1000 requests",
    ];
    expect("publish --seconds 0.3 --connections 8", &figures).await;
    let outcome = expect(
        "publish --seconds 0.5 --rate 200 --queues 3 --delay 1",
        &figures,
    )
    .await;
    assert!(outcome.reports[0].load.starts_with("open loop, 200/s"));
    assert_eq!(
        outcome.reports[0].remarks[0],
        "100 jobs published, 100 delivered, 0 too early"
    );
}

#[tokio::test]
async fn consume() {
    let figures = ["consume + ack", "consume latency p50", "ack latency p99.9"];
    expect(
        "consume --jobs 300 --connections 8 --body-bytes 30",
        &figures,
    )
    .await;
}

#[tokio::test]
async fn bulk_and_ceiling() {
    expect(
        "bulk --jobs 1000 --connections 4",
        &["publish", "consume", "ack"],
    )
    .await;
    let figures = [
        "single publish",
        "bulk consume",
        "bulk ack",
        "bulk publish + consume + ack",
    ];
    expect("ceiling --jobs 1000 --in-flight 8", &figures).await;
}

#[tokio::test]
async fn lateness() {
    let figures = ["lateness at 100/s p50", "lateness at 200/s p99.9", "early"];
    expect(
        "lateness --pending 2000 --rates 100,200 --seconds 1 --consumers 8",
        &figures,
    )
    .await;
}

#[tokio::test]
async fn burst() {
    let figures = [
        "3 queues: drained to ready",
        "3 queues: lateness elsewhere p99",
    ];
    let outcome = expect("burst --jobs 2000 --queues 3 --publish-rate 1000", &figures).await;
    let folder = tempfile::tempdir().unwrap();
    let files = plot(&outcome.reports, folder.path()).unwrap();
    assert!(!files.is_empty());
    for file in files {
        assert!(std::fs::read_to_string(file).unwrap().contains("</svg>"));
    }
}

#[tokio::test]
async fn memory() {
    let figures = [
        "used_memory per job",
        "RSS per job",
        "publish rate, last tenth",
    ];
    expect("memory --jobs 12800 --queues 2", &figures).await;
}

#[tokio::test]
async fn parked() {
    let figures = [
        "RSS of api per waiter",
        "Redis connections",
        "waiting: CPU of api",
        "wake p99",
    ];
    expect(
        "parked --waiters 40 --queues 4 --seconds 0.5 --wakes 20",
        &figures,
    )
    .await;
}

#[tokio::test]
async fn idle() {
    expect(
        "idle --seconds 0.5 --settle 0.1",
        &["Redis commands", "CPU of redis", "CPU of all"],
    )
    .await;
}

#[tokio::test]
async fn neighbours() {
    let figures = [
        "alone: publish p50",
        "beside large bodies: published to received p99",
        "beside large bodies: jobs of the neighbour",
        "beside a huge queue that is emptied: publish p99.9",
    ];
    expect(
        "neighbours --seconds 1 --rate 50 --large-rate 4 --huge 2000",
        &figures,
    )
    .await;
}

#[tokio::test]
async fn growth() {
    let figures = [
        "at 500 pending: jobs",
        "at 1500 pending: publish to acknowledged p50",
    ];
    expect(
        "growth --levels 500,1500 --seconds 0.3 --connections 4",
        &figures,
    )
    .await;
}

#[tokio::test]
async fn two_servers_are_measured_alternately() {
    let (a, b) = (SHARED.acquire().await, Stack::builder().start().await);
    let scenario = ScenarioArgs::parse_from(["loadgen", "consume", "--jobs", "100"]).scenario;
    let (first, second) = (server(&a), server(&b));
    let outcome = run(&scenario, &first, Some(&second), 2, true)
        .await
        .unwrap();
    let servers: Vec<_> = outcome
        .reports
        .iter()
        .map(|report| &report.server)
        .collect();
    assert_eq!(servers, [&first.url, &second.url, &first.url, &second.url]);
    let compared = outcome
        .comparisons
        .iter()
        .find(|it| it.name == "consume + ack")
        .unwrap();
    assert!(compared.ratio_least <= compared.ratio && compared.ratio <= compared.ratio_most);
    assert!(table(&outcome).contains("B / A over the rounds"));
}

/// Without a pump no delayed job becomes ready, so all jobs count as lost.
#[tokio::test]
async fn a_lost_job_invalidates_the_figures() {
    let stack = Stack::builder().pumps(0).start().await;
    let options = server_without_pump(&stack);
    let json = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-loadgen"));
    command
        .args([
            "--target",
            &options.url,
            "--admin",
            options.admin.as_deref().unwrap(),
            "--quiet",
            "--json",
        ])
        .arg(json.path())
        .args([
            "publish",
            "--seconds",
            "0.1",
            "--connections",
            "2",
            "--delay",
            "1",
        ]);
    let ended = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(
        said.contains("jobs lost") && said.contains("do not count"),
        "{said}"
    );
    let written: LoadgenResults =
        serde_json::from_slice(&std::fs::read(json.path()).unwrap()).unwrap();
    assert!(!written.is_valid());
}

fn server_without_pump(stack: &Stack) -> ServerOptions {
    ServerOptions {
        url: stack.api(0).url(),
        admin: Some(stack.api(0).admin_url()),
        ..ServerOptions::default()
    }
}

#[tokio::test]
async fn errors_are_one_sentence() {
    let said = |arguments: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_tidegate-loadgen"))
            .arg("--quiet")
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(1));
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    assert!(said(&["publish"]).contains("--admin URL"));
    let refused = said(&[
        "--target",
        "http://127.0.0.1:1",
        "--token",
        "T",
        "--namespace",
        "n",
        "publish",
    ]);
    assert!(
        refused.starts_with("error: connecting to 127.0.0.1:1: "),
        "{refused}"
    );
    let too_many = said(&[
        "--token",
        "T",
        "--namespace",
        "n",
        "parked",
        "--waiters",
        "10",
        "--wakes",
        "6",
    ]);
    assert!(too_many.contains("at most half"), "{too_many}");
}
