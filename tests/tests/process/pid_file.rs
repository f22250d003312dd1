//! The file with the id of the process.

use std::fs;

use tidegate_testkit::{Program, run_to_end};

use crate::fixture::{Fixture, LIMIT};

#[tokio::test]
async fn it_is_there_while_the_process_runs_and_belongs_to_one() {
    let fixture = Fixture::new().await;
    let pid_file = fixture.name("x.pid");
    for program in [Program::Api, Program::Pumpd] {
        // Longer than any id: nothing of it may be left.
        fixture.write("x.pid", "123456789012345678901234567890\n");
        let daemon = fixture.start(program, &["--pid-file", &pid_file]).await;
        let written = fs::read_to_string(&pid_file).unwrap();
        assert_eq!(written, format!("{}\n", daemon.pid()));

        let flags = ["--pid-file", &pid_file, "--admin-listen", "127.0.0.1:0"];
        let ended = run_to_end(program, &flags, LIMIT).await;
        assert_eq!(ended.code, Some(1));
        let said = format!("process {} holds it", daemon.pid());
        assert!(ended.log.contains(&said), "{}", ended.log);
        assert_eq!(fs::read_to_string(&pid_file).unwrap(), written);

        // A killed one leaves the file; the next one takes it over.
        daemon.restart().await;
        let written = fs::read_to_string(&pid_file).unwrap();
        assert_eq!(written, format!("{}\n", daemon.pid()));
        assert_eq!(daemon.stop(LIMIT).await.code(), Some(0));
        assert!(!fixture.path("x.pid").exists());
    }
}

#[tokio::test]
async fn what_is_no_pid_file_is_neither_overwritten_nor_followed() {
    let fixture = Fixture::new().await;
    let text = "[log]\nlevel = \"info\"\n";
    let other = fixture.write("own.toml", text);
    let link = fixture.name("link.pid");
    std::os::unix::fs::symlink(fixture.path("target"), fixture.path("link.pid")).unwrap();
    for program in [Program::Api, Program::Pumpd] {
        for path in [&other, &link] {
            let flags = ["--pid-file", path, "--admin-listen", "127.0.0.1:0"];
            let ended = run_to_end(program, &flags, LIMIT).await;
            assert_eq!(ended.code, Some(1));
            let said = format!("{path} is no pid file");
            assert!(ended.log.contains(&said), "{}", ended.log);
        }
    }
    assert_eq!(fs::read_to_string(fixture.path("own.toml")).unwrap(), text);
    assert!(!fixture.path("target").exists());
}

#[tokio::test]
async fn a_start_that_fails_leaves_no_file() {
    let fixture = Fixture::new().await;
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
    let ended =
        tidegate_testkit::run_to_end_with(Program::Pumpd, &flags, &environment, LIMIT).await;
    assert_eq!(ended.code, Some(1));
    assert!(!fixture.path("x.pid").exists());
    let flags = ["--pid-file", "/nowhere/x.pid"];
    let ended = run_to_end(Program::Pumpd, &flags, LIMIT).await;
    assert!(
        ended.log.contains("pid_file: cannot write /nowhere/x.pid"),
        "{}",
        ended.log
    );
}
