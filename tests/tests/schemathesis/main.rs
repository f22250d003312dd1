//! Requests that Schemathesis generates from the OpenAPI document, sent to a real API: each is answered as the document
//! says, and none with a 500. Afterwards all that is stored must be consistent.
//!
//! | file | content |
//! |---|---|
//! | `environment` | installs Schemathesis below `target` |
//! | `schemathesis.toml`, `hooks.py` | the checks, and what the document cannot say |
//! | `requirements.txt` | the versions of all Python packages |
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod environment;

use std::path::Path;
use std::process::Command;

use tidegate_testkit::{Daemon, NativeClient, Stack, print_figure, seed};

use environment::Environment;

/// The number of requests, such as 20000.
const REQUESTS_VARIABLE: &str = "TIDEGATE_SCHEMATHESIS";
const REQUESTS: u64 = 1_800;
/// From so many requests on, every invalid boundary value of the document is sent too: about 1,900.
const MANY_REQUESTS: u64 = 5_000;
/// Examples are divided among so many operations. Some operations have fewer, so a long run takes several rounds.
const OPERATIONS: u64 = 24;
const ROUNDS_MAX: u64 = 10;
/// Counts all answers of the API.
const ANSWERED: &str = "infra_lmstfy_http_http_codes";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_requests_are_answered_as_documented() {
    let requests = std::env::var(REQUESTS_VARIABLE).map_or(REQUESTS, |text| {
        let number = text.parse();
        number
            .unwrap_or_else(|_| panic!("{REQUESTS_VARIABLE} is a number of requests, not {text:?}"))
    });
    let environment = Environment::install();
    let stack = Stack::builder()
        .api_config("[durability]\ntimeout = \"100ms\"\n[waiters]\nwait_max = \"1s\"")
        .start()
        .await;
    let api = stack.api(0);
    let run = SchemathesisRun {
        environment: &environment,
        url: api.url(),
        key: create_key(api).await,
    };
    let mode = match requests < MANY_REQUESTS {
        true => "positive",
        false => "all",
    };
    run.phases("examples,coverage", &["--mode", mode], seed());
    let mut answered = api.metric(ANSWERED).await;
    for round in 1..=ROUNDS_MAX {
        let missing = requests.saturating_sub(answered as u64);
        if missing == 0 {
            break;
        }
        let examples = missing.div_ceil(OPERATIONS).to_string();
        let examples = ["--max-examples", &examples];
        run.phases("fuzzing,stateful", &examples, seed() + round);
        answered = api.metric(ANSWERED).await;
    }
    print_figure(&format!("{answered} generated requests"));
    assert!(
        answered as u64 >= requests,
        "{requests} requests are too many for the document"
    );
    // A problem of one job of a batch is no answer with a status, so Schemathesis does not see it.
    let log = api.log();
    for symptom in ["panicked", "call to redis failed"] {
        let lines = log.lines().filter(|line| line.contains(symptom));
        assert_eq!(lines.collect::<Vec<_>>(), [""; 0]);
    }
    stack.finish().await;
}

/// Creates a key with all rights in all namespaces.
async fn create_key(api: &Daemon) -> String {
    let scopes = ["publish", "consume", "read", "admin"];
    NativeClient::operator(api, "*").new_key(&scopes).await
}

struct SchemathesisRun<'a> {
    environment: &'a Environment,
    url: String,
    key: String,
}

impl SchemathesisRun<'_> {
    /// Runs some phases.
    ///
    /// # Panics
    /// If Schemathesis finds something.
    fn phases(&self, phases: &str, flags: &[&str], seed: u64) {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis");
        let mut command = Command::new(self.environment.program());
        command
            .arg("--config-file")
            .arg(here.join("schemathesis.toml"))
            .arg("run")
            .arg(here.join("../../../docs/openapi.json"))
            .args(["--url", &self.url, "--phases", phases])
            .args(["--seed", &seed.to_string()])
            .args(flags)
            .env("TIDEGATE_SCHEMATHESIS_HOOKS", here.join("hooks.py"))
            .env("TIDEGATE_SCHEMATHESIS_KEY", &self.key)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(self.environment.folder());
        let output = command.output().expect("schemathesis runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "Schemathesis found answers that the document does not allow (phases {phases}, seed {seed}):\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
