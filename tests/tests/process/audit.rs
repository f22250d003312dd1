//! `tidegate-pumpd audit`: its output and its exit status.

use tidegate_testkit::{DaemonProgram, run_until_exit};

use crate::fixture::{DaemonFixture, LIMIT};

#[tokio::test]
async fn the_exit_status_reports_findings_and_errors() {
    let fixture = DaemonFixture::new().await;
    // A pump runs meanwhile and holds the pid file, which an audit leaves alone.
    let pid_file = fixture.name("x.pid");
    let _pump = fixture
        .start(DaemonProgram::Pumpd, &["--pid-file", &pid_file])
        .await;
    let url = fixture.redis.url();
    let audit = async |more: &[&str]| {
        let mut flags = vec![
            "audit",
            "--redis",
            &url,
            "--pause-ms",
            "0",
            "--pid-file",
            &pid_file,
        ];
        flags.extend_from_slice(more);
        run_until_exit(DaemonProgram::Pumpd, &flags, LIMIT).await
    };
    let ended = audit(&[]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(
        ended.log.contains("256 buckets, 0 jobs: 0 findings"),
        "{}",
        ended.log
    );

    let client = redis::Client::open(url.clone()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let set = redis::cmd("SET")
        .arg("tg:17:{13609}:body:1000001")
        .arg("x")
        .to_owned();
    set.exec(&mut connection).unwrap();
    let ended = audit(&["--bucket", "17"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    assert!(
        ended
            .log
            .contains("bucket 17: orphaned_body: body 1000001 belongs to no job\n"),
        "{}",
        ended.log
    );
    let ended = audit(&["--bucket", "16"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let ended = audit(&["--repair", "--json"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let finding_line = r#"{"bucket":17,"finding":"orphaned_body","repaired":true,"text":"body 1000001 belongs to no job"}"#;
    assert!(ended.log.contains(finding_line), "{}", ended.log);
    assert_eq!(audit(&[]).await.code, Some(0));

    for (flags, problem) in [
        (["--bucket", "256"], "there are 256 buckets, from 0"),
        (["--pool", "nowhere"], "there is no pool \"nowhere\""),
    ] {
        let ended = audit(&flags).await;
        assert_eq!(ended.code, Some(2), "{}", ended.log);
        assert!(ended.log.contains(problem), "{}", ended.log);
    }
    assert_eq!(
        audit(&["--redis", "redis://127.0.0.1:1"]).await.code,
        Some(2)
    );
}
