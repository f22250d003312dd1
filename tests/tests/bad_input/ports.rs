//! Ports that are in use.

use std::time::Duration;

use tidegate_testkit::{DaemonProgram, Stack, run_until_exit};

#[tokio::test]
async fn a_port_in_use_is_named() {
    let stack = Stack::builder().start().await;
    let url = stack.redis.url();
    let listen = stack.api(0).listen().to_string();
    let admin = stack.api(0).admin().to_string();
    let free = "127.0.0.1:0";
    let cases: [(DaemonProgram, Vec<&str>, String); 3] = [
        (
            DaemonProgram::Api,
            vec!["--listen", &listen, "--admin-listen", free],
            format!("listen = \"{listen}\""),
        ),
        (
            DaemonProgram::Api,
            vec!["--listen", free, "--admin-listen", &admin],
            format!("admin_listen = \"{admin}\""),
        ),
        (
            DaemonProgram::Pumpd,
            vec!["--admin-listen", &admin],
            format!("admin_listen = \"{admin}\""),
        ),
    ];
    for (program, mut arguments, taken) in cases {
        arguments.extend(["--redis", &url]);
        let ended = run_until_exit(program, &arguments, Duration::from_secs(20)).await;
        assert!(ended.code.is_some_and(|code| code != 0), "{ended:?}");
        let message = format!("cannot listen on {taken}: Address already in use");
        assert!(ended.log.contains(&message), "{}", ended.log);
        let remedy = "another process listens there";
        assert!(ended.log.contains(remedy), "{}", ended.log);
        assert!(!ended.log.contains("panicked"), "{}", ended.log);
    }
    stack.finish().await;
}
