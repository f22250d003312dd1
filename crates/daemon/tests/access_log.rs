//! The access log and the error log are separate files. One test, because a process has one log.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_daemon::logs::{self, access_log, set_access_log};
use tidegate_daemon::{LogConfig, LogFormat};
use tracing::level_filters::LevelFilter;

fn until_written(path: &Path, text: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let written = fs::read_to_string(path).unwrap_or_default();
        if written.contains(text) {
            return written;
        }
        assert!(Instant::now() < deadline, "no {text} in {written:?}");
        std::thread::yield_now();
    }
}

fn request(path: &str) {
    tracing::info!(target: "access", path, code = 200, "request");
}

#[test]
fn the_access_log_is_a_separate_file_and_can_be_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let (access, errors) = (
        folder.path().join("access.log"),
        folder.path().join("error.log"),
    );
    let config = LogConfig {
        level: "warn".to_owned(),
        format: LogFormat::Json,
        directory: folder.path().to_owned(),
        access: Some(true),
    };
    let logs = logs::init(&config).unwrap();
    assert!(access_log());
    assert_eq!(LevelFilter::current(), LevelFilter::INFO);
    // `log.level` does not apply to the access log, which has a separate switch.
    request("/one");
    tracing::info!("quiet");
    tracing::warn!("loud");
    set_access_log(false);
    request("/two");
    set_access_log(true);
    request("/three");
    tracing::error!(target: "access", path = "/four", code = 500, "request");
    let written = until_written(&access, "/four");
    assert!(
        written.contains("\"path\":\"/one\"") && written.contains("\"code\":200"),
        "{written}"
    );
    assert!(
        written.contains("/three") && !written.contains("/two"),
        "{written}"
    );
    assert!(!written.contains("loud"), "{written}");
    let written = until_written(&errors, "loud");
    assert!(
        !written.contains("quiet") && !written.contains("/one"),
        "{written}"
    );

    logs.set_level("debug").unwrap();
    assert_eq!(LevelFilter::current(), LevelFilter::DEBUG);
    tracing::debug!("detail");
    until_written(&errors, "detail");
    assert!(logs.set_level("loud").is_err());
    logs.set_level("error").unwrap();
    tracing::warn!("muted");
    request("/five");
    until_written(&access, "/five");

    fs::rename(&access, folder.path().join("access.log.1")).unwrap();
    assert_eq!(logs.reopen().count, 2);
    request("/six");
    drop(logs);
    let written = fs::read_to_string(&access).unwrap();
    assert!(
        written.contains("/six") && !written.contains("/five"),
        "{written}"
    );
    assert!(!fs::read_to_string(&errors).unwrap().contains("muted"));
}
