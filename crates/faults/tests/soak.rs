//! A short soak against real daemons. Its memory and lateness are not judged: the machine of a test is not quiet, and a
//! minute is too short. `cargo xtask soak` does.

use std::time::Duration;

use tidegate_faults::soak::{PROCESSES, RESTARTED, SoakOptions, SoakSample, run_soak, soak_checks};
use tidegate_testkit::print_figure;

/// Far below what any machine can do, so that the load is the planned one.
const RATE: f64 = 150.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixed_load_with_restarts_and_audits_loses_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = SoakOptions {
        length: Duration::from_secs(30),
        rate: Some(RATE),
    };
    let report = run_soak(options, folder.path(), |_| {}).await;
    let files = report
        .write(folder.path())
        .expect("the results are written");
    print_figure(&report.table());
    for check in soak_checks(&report) {
        if ["jobs", "audits"].contains(&check.name.as_str()) {
            assert!(check.holds, "{}: {}", check.name, check.text);
        }
    }
    assert!(report.jobs.published > 100);
    assert!(report.jobs.deliveries > report.jobs.published / 2);
    let restarted: Vec<&str> = report.restarts.iter().map(|it| it.name).collect();
    assert!(RESTARTED.iter().all(|name| restarted.contains(name)));
    assert!(report.audits.done > 1);
    // Those of a process that restarts fail.
    assert!(report.scrapes.done > report.scrapes.failed);
    let connected = |sample: &SoakSample| sample.http_connections > 0;
    assert!(report.samples.iter().any(connected));
    for (at, name) in PROCESSES.iter().enumerate() {
        let used = report.samples.iter().filter_map(|it| it.processes[at]);
        let is_measured = |used: tidegate_faults::soak::ProcessSample| {
            used.resident_bytes > 0 && used.open_files > 0 && used.cpu_percent > 0.0
        };
        assert!(used.into_iter().any(is_measured), "{name}");
    }
    for file in files {
        let bytes = std::fs::metadata(&file).expect("a file").len();
        assert!(bytes > 500, "{}", file.display());
    }
}
