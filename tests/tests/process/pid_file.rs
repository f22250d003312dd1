//! The pid file.

use std::fs;

use tidegate_testkit::{DaemonProgram, run_until_exit, run_until_exit_with};

use crate::fixture::{DaemonFixture, LIMIT};

#[tokio::test]
async fn a_pid_file_exists_while_its_process_runs() {
    let fixture = DaemonFixture::new().await;
    let pid_file = fixture.name("x.pid");
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        // Longer than any id: nothing of it may be left.
        fixture.write("x.pid", "123456789012345678901234567890\n");
        let daemon = fixture.start(program, &["--pid-file", &pid_file]).await;
        let written = fs::read_to_string(&pid_file).unwrap();
        assert_eq!(written, format!("{}\n", daemon.pid()));

        // A killed process leaves its file; the next process takes it over.
        daemon.restart().await;
        let written = fs::read_to_string(&pid_file).unwrap();
        assert_eq!(written, format!("{}\n", daemon.pid()));
        assert_eq!(daemon.stop(LIMIT).await.code(), Some(0));
        assert!(!fixture.path("x.pid").exists());
    }
}

#[tokio::test]
async fn other_files_are_not_overwritten_and_links_are_not_followed() {
    let fixture = DaemonFixture::new().await;
    let text = "[log]\nlevel = \"info\"\n";
    let other = fixture.write("own.toml", text);
    let link = fixture.name("link.pid");
    std::os::unix::fs::symlink(fixture.path("target"), fixture.path("link.pid")).unwrap();
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        for (path, said) in [
            (&other, format!("{other} is no pid file")),
            (&link, format!("cannot write {link}")),
        ] {
            let flags = ["--pid-file", path, "--admin-listen", "127.0.0.1:0"];
            let ended = run_until_exit(program, &flags, LIMIT).await;
            assert_eq!(ended.code, Some(1));
            assert!(ended.log.contains(&said), "{}", ended.log);
        }
    }
    assert_eq!(fs::read_to_string(fixture.path("own.toml")).unwrap(), text);
    assert!(!fixture.path("target").exists());
}

#[tokio::test]
async fn a_failed_start_leaves_no_pid_file() {
    let fixture = DaemonFixture::new().await;
    let pid_file = fixture.name("x.pid");
    let flags = [
        "--pid-file",
        &pid_file,
        "--redis",
        "redis://127.0.0.1:1",
        "--admin-listen",
        "127.0.0.1:0",
    ];
    let environment = [("TIDEGATE_CONNECT_PATIENCE", "0s")];
    let ended = run_until_exit_with(DaemonProgram::Pumpd, &flags, &environment, LIMIT).await;
    assert_eq!(ended.code, Some(1));
    assert!(!fixture.path("x.pid").exists());
    let flags = ["--pid-file", "/nowhere/x.pid"];
    let ended = run_until_exit(DaemonProgram::Pumpd, &flags, LIMIT).await;
    assert!(
        ended.log.contains("pid_file: cannot write /nowhere/x.pid"),
        "{}",
        ended.log
    );
}
