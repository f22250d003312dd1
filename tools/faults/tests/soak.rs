//! A short soak against real daemons. Its memory and lateness are not judged: the machine of a test is not quiet, and a
//! minute is too short. `cargo xtask soak` does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use tidegate_faults::oracle::Defect;
use tidegate_faults::soak::{
    PROCESSES, RESTARTED, SoakOptions, SoakProgress, SoakSample, run_soak, soak_checks,
};
use tidegate_testkit::{RawHttp, print_figure};

/// Far below what any machine can do, so that the load is the planned one.
const RATE: f64 = 150.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mixed_load_with_restarts_and_audits_loses_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = SoakOptions {
        length: Duration::from_secs(20),
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_another_client_takes_are_lost_and_fail_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = SoakOptions {
        length: Duration::from_secs(6),
        rate: Some(RATE),
    };
    let taken = Arc::new(AtomicU64::new(0));
    let report = run_soak(options, folder.path(), |step| {
        if let SoakProgress::Running { api, api_key, .. } = step {
            // As many as the consumers of the load, which wait for the same jobs.
            for _ in 0..8 {
                tokio::spawn(take_jobs(api, api_key.to_owned(), Arc::clone(&taken)));
            }
        }
    })
    .await;
    let taken = taken.load(Ordering::Relaxed);
    print_figure(&report.table());
    // A job whose publish had no answer is unknown, not lost.
    let lost = report.jobs.findings.get(&Defect::Lost).copied();
    assert!(taken > 0 && lost.is_some(), "{:?}", report.defects);
    assert!(lost.unwrap_or_default() + report.jobs.unknown >= taken);
    assert!(
        report.defects[0].starts_with("lost: "),
        "{:?}",
        report.defects
    );
    assert!(!report.is_good());
}

/// Reserves jobs of a queue of the load, and acknowledges them, until the run ends.
async fn take_jobs(api: SocketAddr, api_key: String, taken: Arc<AtomicU64>) {
    let mut http = RawHttp::connect(api).await;
    let headers = [
        ("Authorization".to_owned(), format!("Bearer {api_key}")),
        ("Content-Type".to_owned(), "application/json".to_owned()),
    ];
    loop {
        let body = json!({"queues": ["q5"], "wait": "5s"}).to_string();
        http.request("POST", "/v1/soak/reserve", &headers, body.as_bytes())
            .await;
        let Some(answer) = http.answer().await else {
            return;
        };
        for job in answer.expect(200).json()["jobs"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let body = json!({"leases": [job["lease"]]}).to_string();
            http.request("POST", "/v1/soak/ack", &headers, body.as_bytes())
                .await;
            let ended = http.answer().await.expect("an answer").expect(200).json();
            assert_eq!(ended["results"][0]["outcome"], "done");
            taken.fetch_add(1, Ordering::Relaxed);
        }
    }
}
