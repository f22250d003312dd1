//! `cargo xtask schemathesis`: sends requests that are generated from the OpenAPI document to a real API.

use std::process::ExitCode;

use clap::Args;

use crate::test::{GENERATED_REQUESTS, test_flag};
use crate::workspace::Workspace;

/// The variable with which the suite takes the number of requests.
const REQUESTS_VARIABLE: &str = "TIDEGATE_SCHEMATHESIS";

/// The flags of `schemathesis`.
#[derive(Debug, Args)]
pub(crate) struct SchemathesisOptions {
    /// How many requests are sent at least
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    requests: u64,
}

pub(crate) fn run(workspace: &Workspace, options: &SchemathesisOptions) -> ExitCode {
    let suite = test_flag(GENERATED_REQUESTS);
    let requests = options.requests.to_string();
    let steps = [
        ["build", "--locked", "--workspace"].as_slice(),
        &["test", "--locked", "--workspace", &suite],
    ];
    for arguments in steps {
        let mut cargo = workspace.cargo();
        cargo.args(arguments).env(REQUESTS_VARIABLE, &requests);
        match cargo.status() {
            Ok(status) if status.success() => {}
            Ok(_) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("error: failed to run cargo: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
