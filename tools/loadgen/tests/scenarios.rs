//! Runs every scenario briefly against real daemons. Each must end with valid figures; their values are not
//! checked.

use std::process::Command;

use clap::Parser;
use tidegate_loadgen::{LoadgenResults, Scenario, ServerOptions, Wire, run, table};
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

fn scenario(flags: &str) -> Scenario {
    let words = std::iter::once("loadgen").chain(flags.split_whitespace());
    ScenarioArgs::parse_from(words).scenario
}

/// Runs a scenario with these flags and expects these figures.
async fn expect(flags: &str, figures: &[&str]) -> LoadgenResults {
    expect_on(None, flags, figures).await
}

/// Runs a scenario on the native wire.
async fn expect_native(flags: &str, figures: &[&str]) -> LoadgenResults {
    expect_on(Some(Wire::Native), flags, figures).await
}

async fn expect_on(wire: Option<Wire>, flags: &str, figures: &[&str]) -> LoadgenResults {
    let stack = SHARED.acquire().await;
    let options = ServerOptions {
        wire,
        ..server(&stack)
    };
    let outcome = run(&scenario(flags), &options, None, 1, true)
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
async fn bulk() {
    expect(
        "bulk --jobs 1000 --connections 4",
        &["publish", "consume", "ack"],
    )
    .await;
}

#[tokio::test]
async fn floor() {
    let figures = [
        "publish: API / floor",
        "consume: Redis",
        "ack: scripts alone",
        "consume + ack: Redis",
    ];
    let flags = "floor --jobs 5000 --turns 1 --connections 8";
    expect(flags, &figures).await;
    expect_native(flags, &figures).await;
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
    expect("burst --jobs 2000 --queues 3 --publish-rate 1000", &figures).await;
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
async fn singles_on_the_native_wire() {
    let figures = [
        "publish",
        "publish latency p99",
        "publish: requests",
        "publish: CPU of api per 1000 jobs",
    ];
    for flags in [
        "publish --seconds 0.3 --connections 8",
        "publish --seconds 0.3 --connections 8 --keyed --queues 3",
        "publish --seconds 0.5 --rate 200 --keyed --delay 1",
    ] {
        let outcome = expect_native(flags, &figures).await;
        assert_eq!(outcome.reports[0].parameters["wire"], "native");
    }
    let figures = ["consume + ack", "consume latency p50", "ack latency p99.9"];
    expect_native("consume --jobs 300 --connections 8", &figures).await;
}

#[tokio::test]
async fn batches_on_the_native_wire() {
    let figures = ["publish", "consume", "ack", "ack: requests"];
    for flags in [
        "bulk --jobs 1000 --connections 4",
        "bulk --jobs 500 --keyed",
    ] {
        expect_native(flags, &figures).await;
    }
}

/// The scenarios that are not about a wire.
#[tokio::test]
async fn other_scenarios_on_the_native_wire() {
    for (flags, figure) in [
        (
            "lateness --pending 500 --rates 100 --seconds 1 --consumers 8",
            "lateness at 100/s p50",
        ),
        (
            "burst --jobs 1000 --queues 3 --publish-rate 1000",
            "3 queues: drained to ready",
        ),
        (
            "parked --waiters 20 --queues 4 --seconds 0.3 --wakes 10",
            "wake p99",
        ),
    ] {
        expect_native(flags, &[figure]).await;
    }
}

#[tokio::test]
async fn memory_of_keys_and_idempotency_keys() {
    let plain = "used_memory per job";
    let flags = "memory --jobs 6400 --queues 2 --body-bytes 40 --spread 365d";
    expect_native(flags, &[plain]).await;
    for (flag, figure) in [
        ("--keyed", "used_memory for the key"),
        ("--idempotent", "used_memory for the idempotency key"),
    ] {
        expect(&format!("{flags} {flag}"), &[plain, figure]).await;
    }
}

#[tokio::test]
async fn touch() {
    let figures = [
        "touch",
        "touch latency p99",
        "CPU of redis",
        "touch: requests",
    ];
    let flags = "touch --leases 500 --every 1 --lease 20 --seconds 2 --batch 50 --queues 3";
    expect(flags, &figures).await;
}

#[tokio::test]
async fn schedules() {
    let figures = [
        "ticks of one bucket",
        "lateness of others p50",
        "lateness of others p99",
    ];
    expect("schedules --schedules 5 --seconds 3", &figures).await;
}

#[tokio::test]
async fn the_wires_of_a_server_are_measured_alternately() {
    let stack = SHARED.acquire().await;
    let wire = |wire| ServerOptions {
        wire: Some(wire),
        ..server(&stack)
    };
    let (first, second) = (wire(Wire::Lmstfy), wire(Wire::Native));
    let publish = scenario("publish --seconds 0.2 --keyed");
    let outcome = run(&publish, &first, Some(&second), 2, true).await.unwrap();
    let wires: Vec<_> = outcome
        .reports
        .iter()
        .map(|report| report.parameters["wire"].as_str())
        .collect();
    assert_eq!(wires, ["lmstfy", "native", "lmstfy", "native"]);
    let compared = |name| outcome.comparisons.iter().any(|it| it.name == name);
    assert!(compared("publish") && compared("publish: CPU of redis per 1000 jobs"));
}

#[tokio::test]
async fn two_servers_are_measured_alternately() {
    let (a, b) = (SHARED.acquire().await, Stack::builder().start().await);
    let scenario = scenario("consume --jobs 100");
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
    let said_status = |status: i32, arguments: &[&str]| {
        let ended = Command::new(env!("CARGO_BIN_EXE_tidegate-loadgen"))
            .arg("--quiet")
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(status));
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    let said = |arguments: &[&str]| said_status(1, arguments);
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
    let other_wire = said(&["--wire", "lmstfy", "memory", "--keyed"]);
    assert_eq!(
        other_wire,
        "error: memory with these flags needs --wire native\n"
    );
    let spread = said_status(2, &["memory", "--spread", "30"]);
    assert!(spread.contains("30 has no unit"), "{spread}");
}
