//! The suites of tests.
//!
//! Two run at a time, since most of them wait most of the time. The suite that only calculates runs beside them with
//! the lowest priority, and lints and documentation follow it: by then the other calls of cargo have found that
//! everything is built, and have left the target folder, which one call uses at a time. The suite that judges times
//! runs alone.

use std::num::NonZero;
use std::process::Command;
use std::thread;

use super::cargo_call::{self, EndedCall};
use crate::test_files::TestFiles;
use crate::workspace::Workspace;

/// The variable of Rust's test harness for the number of tests that run at a time.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// The suite that needs Python and PyPI.
pub(crate) const GENERATED_REQUESTS: &str = "schemathesis";
/// A suite that only calculates.
const MODEL: &str = "model";
/// A suite that judges times.
const TIMES: &str = "timing";
/// The suite of the clients, which needs the packages of five languages: `cargo test --test clients` runs it.
const CLIENTS: &str = "clients";
/// Suites that wait for browsers, failovers, leases, brokers, payloads and faults. The others run beside them.
const WAITING: [&str; 6] = ["cold", "dashboard", "links", "relay", "seeds", "soak"];
/// Tests of a quick check. It leaves out tests that kill processes, wait for failovers, send invalid input or run the
/// fault harness.
pub(super) const QUICK: [&str; 4] = ["--lib", "--bins", "--test=store", "--test=conformance"];

/// Runs suites of tests.
#[derive(Clone, Copy)]
pub(super) struct Suites<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) files: &'a TestFiles,
}

impl Suites<'_> {
    pub(super) fn test_quickly(self) -> bool {
        self.test(&QUICK)
    }

    /// Runs all suites except the model, the clients and the suite of times. Returns whether all have passed.
    pub(super) fn test_all(self) -> bool {
        let suites = match self.workspace.test_targets() {
            Ok(suites) => suites,
            Err(error) => {
                println!("failed to read the names of the suites: {error}");
                return false;
            }
        };
        let others = [CLIENTS, MODEL, TIMES].into_iter().chain(WAITING);
        let others: Vec<&str> = others.collect();
        let suites = suites.into_iter();
        let suites = suites.filter(|suite| !others.contains(&suite.as_str()));
        let suites: Vec<String> = suites.map(|suite| test_flag(&suite)).collect();
        let units = ["--lib", "--bins", "--benches"].into_iter();
        let suites: Vec<&str> = units.chain(suites.iter().map(String::as_str)).collect();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| self.test_waiting());
            let tested = self.test(&suites) & self.test(&["--doc"]);
            let waiting = waiting.join().expect("the thread does not panic");
            tested & waiting.print()
        })
    }

    fn test_waiting(self) -> EndedCall {
        let mut waiting = self.command(self.workspace.cargo());
        waiting.args(WAITING.map(test_flag));
        EndedCall::of(waiting)
    }

    pub(super) fn test_model(self) -> EndedCall {
        let mut model = self.command(self.workspace.cargo_with_lowest_priority());
        model.arg(test_flag(MODEL));
        EndedCall::of(model)
    }

    pub(super) fn test_times(self) -> bool {
        self.test(&[&test_flag(TIMES)])
    }

    fn test(self, which: &[&str]) -> bool {
        let mut command = self.command(self.workspace.cargo());
        command.args(which);
        cargo_call::run(command)
    }

    /// Tests run three times as many at a time as there are processors: they wait most of the time. All packages are
    /// selected, also where the tests of one are meant: for fewer of them cargo would choose other features of
    /// dependencies, and compile these again.
    fn command(self, mut cargo: Command) -> Command {
        if std::env::var_os(TEST_THREADS).is_none() {
            cargo.env(TEST_THREADS, (3 * processors()).to_string());
        }
        if let Some(folder) = self.files.folder() {
            cargo.env("TMPDIR", folder);
        }
        cargo.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
        cargo
    }
}

/// The flag of cargo that selects a suite.
pub(crate) fn test_flag(suite: &str) -> String {
    format!("--test={suite}")
}

fn processors() -> usize {
    thread::available_parallelism().map_or(2, NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suites_that_are_named_here_exist() {
        let suites = Workspace::find().unwrap().test_targets().unwrap();
        let quick = QUICK.into_iter();
        let quick = quick.filter_map(|flag| flag.strip_prefix("--test="));
        let named = [GENERATED_REQUESTS, CLIENTS, MODEL, TIMES];
        for name in quick.chain(named).chain(WAITING) {
            assert!(
                suites.iter().any(|suite| suite == name),
                "{name}: {suites:?}"
            );
        }
    }
}
