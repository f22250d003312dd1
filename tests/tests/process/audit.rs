//! `tidegate-pumpd audit`: what it says, and how it ends.

use tidegate_testkit::{Program, run_to_end};

use crate::fixture::{Fixture, LIMIT};

#[tokio::test]
async fn its_exit_status_tells_what_it_came_to() {
    let fixture = Fixture::new().await;
    // It is at work meanwhile, with a pid file of its own.
    let pid_file = fixture.name("x.pid");
    let _pump = fixture
        .start(Program::Pumpd, &["--pid-file", &pid_file])
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
        run_to_end(Program::Pumpd, &flags, LIMIT).await
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
            .contains("bucket 17: body 1000001 belongs to no job\n"),
        "{}",
        ended.log
    );
    let ended = audit(&["--bucket", "16"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let ended = audit(&["--repair", "--json"]).await;
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let told = r#"{"bucket":17,"defect":"body_alone","mended":true,"what":"body 1000001 belongs to no job"}"#;
    assert!(ended.log.contains(told), "{}", ended.log);
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
