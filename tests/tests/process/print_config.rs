//! `--print-config`: the settings in effect, without secrets, in a form that can be read back.

use tidegate_testkit::{DaemonProgram, run_until_exit, run_until_exit_with};

use crate::fixture::{DaemonFixture, LIMIT};

const BOTH: [DaemonProgram; 2] = [DaemonProgram::Api, DaemonProgram::Pumpd];

/// The output with these flags and variables.
async fn printed(program: DaemonProgram, flags: &[&str], environment: &[(&str, &str)]) -> String {
    let mut flags = flags.to_vec();
    flags.push("--print-config");
    let ended = run_until_exit_with(program, &flags, environment, LIMIT).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    ended.log
}

/// The lines without the comments that say where a value comes from.
fn bare(text: &str) -> Vec<&str> {
    let lines = text
        .lines()
        .map(|line| line.split("  # ").next().unwrap_or(line));
    lines.filter(|line| !line.starts_with('#')).collect()
}

#[tokio::test]
async fn printed_settings_can_be_read_back() {
    let fixture = DaemonFixture::new().await;
    let file = fixture.write(
        "own.toml",
        "[pool.other]\nurl = \"redis://10.0.0.9:6379/3\"\nbuckets = 8\n",
    );
    for program in BOTH {
        let flags = [
            "--config",
            &file,
            "--redis",
            "redis://10.0.0.1:1",
            "--log-level",
            "warn",
        ];
        let environment = [
            ("TIDEGATE_CONNECT_PATIENCE", "7s"),
            ("TIDEGATE_LOG__FORMAT", "json"),
        ];
        let first = printed(program, &flags, &environment).await;
        for line in [
            "connect_patience = \"7s\"  # environment",
            "level = \"warn\"  # command line",
            "url = \"redis://10.0.0.1:1\"  # command line",
            "[pool.other]",
            "command_timeout = \"3s\"",
        ] {
            assert!(first.lines().any(|found| found == line), "{line}:\n{first}");
        }
        assert!(first.contains("buckets = 8  # config file "), "{first}");
        let back = fixture.write("back.toml", &first);
        let second = printed(program, &["--config", &back], &[]).await;
        assert_eq!(bare(&first), bare(&second));
    }
}

#[tokio::test]
async fn secrets_are_never_shown() {
    let fixture = DaemonFixture::new().await;
    let file = fixture.write("own.toml", "[accounts]\nops = \"hunter2\"\n");
    let environment = [("TIDEGATE_ACCOUNTS__DEV", "hunter3")];
    let flags = [
        "--config",
        &file,
        "--redis",
        "redis://me:hunter4@10.0.0.1:1",
    ];
    let message = printed(DaemonProgram::Api, &flags, &environment).await;
    assert!(!message.contains("hunter"), "{message}");
    assert!(message.contains("ops = \"<hidden>\""), "{message}");
    assert!(
        message.contains("dev = \"<hidden>\"  # environment"),
        "{message}"
    );
    assert!(
        message.contains("redis://me:<hidden>@10.0.0.1:1"),
        "{message}"
    );
    // The text that stands for a secret is refused as a value.
    let back = fixture.write("back.toml", &message);
    let ended = run_until_exit(DaemonProgram::Api, &["--config", &back], LIMIT).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .log
            .contains("accounts.dev: <hidden> stands for a secret"),
        "{}",
        ended.log
    );
}

#[tokio::test]
async fn a_url_is_shown_only_in_its_documented_form() {
    for url in [
        "redis://:hunter2@h:6379/1",
        "rediss://me:hunter2@h?db=1",
        "me:hunter2@h:6379",
        "redis+unix:///run/redis?pass=hunter2",
        "unix:/run/redis?user=me&pass=hunter2&db=1",
        "unix:///run/redis@1?p%61ss=hunter2",
        "unix:///run/redis?pass=hunter@2",
        "redis://me:hunt?er2@h",
        "redis://:hunter2%40h:6379",
        "redis://me:hunter2%40127.0.0.1:6379/0",
        "redis://:hunter2",
        "redis://:hunter2/0",
        "redis+unix:///run/redis;pass=hunter2",
        "redis://h:6379/0&password=hunter2",
    ] {
        for program in BOTH {
            let message = printed(program, &["--redis", url], &[]).await;
            assert!(message.contains("<hidden>"), "{url}: {message}");
            assert!(
                !message.contains("hunt") && !message.contains("er2"),
                "{url}: {message}"
            );
        }
    }
    let nodes = "redis://h:1,redis://me:hunter2@i:1";
    let environment = [("TIDEGATE_POOL__DEFAULT__CLUSTER", nodes)];
    let message = printed(DaemonProgram::Api, &[], &environment).await;
    assert!(!message.contains("hunter2"), "{message}");
    assert!(
        message.contains("redis://h:1,redis://me:<hidden>@i:1"),
        "{message}"
    );
}

#[tokio::test]
async fn error_messages_contain_no_secrets() {
    let fixture = DaemonFixture::new().await;
    for (text, key) in [
        ("accounts = \"hunter2\"", "accounts"),
        ("[account_roles]\nops = \"view\"", "account_roles, \"ops\""),
        (
            "[accounts]\nops = \"hunter2\"\n[account_roles]\nops = \"root\"",
            "account_roles.ops",
        ),
        ("[accounts]\nops = \"hunter2", "line 2 (ops)"),
        ("[accounts]\n\"\" = \"hunter2\"", "accounts"),
        (
            "[pool.default]\nurl = \"redis://me:hunter2@\"",
            "pool default",
        ),
        (
            "[pool.default]\nurl = \"redis://me:hunter2@h:port\"",
            "pool default",
        ),
        ("[pool]\ndefault = \"redis://me:hunter2@h\"", "pool.default"),
        (
            "[pool.default]\nmigrate_to = \"redis://:hunter2@h:1\"",
            "pool.default.migrate_to",
        ),
        (
            "[pool.default]\nmigrate_to = 'hunter2\"'\npassword = 'hunter2\"'",
            "pool.default.migrate_to",
        ),
        ("[log]\nlevel = \"info,redis://:hunter2@h\"", "log.level"),
        ("[pool.\"redis://:hunter2@h\"]\nurl = \"\"", "pool"),
        ("[pool.\"redis://:hunter2@h\"]\nbuckets = 0", "pool"),
        ("\"redis://:hunter2@h\" = 1", "key"),
    ] {
        let file = fixture.write("own.toml", text);
        let flags = [
            "--config",
            &file,
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
        ];
        let ended = run_until_exit(DaemonProgram::Api, &flags, LIMIT).await;
        assert_eq!(ended.code, Some(1), "{text}: {}", ended.log);
        assert!(ended.log.contains(key), "{text}: {}", ended.log);
        assert!(!ended.log.contains("hunter2"), "{text}: {}", ended.log);
    }
}

#[tokio::test]
async fn invalid_settings_are_not_printed() {
    for program in BOTH {
        let ended = run_until_exit(
            program,
            &["--print-config", "--log-level", "verbose"],
            LIMIT,
        )
        .await;
        assert_eq!(ended.code, Some(1));
        assert!(
            ended.log.contains("\"verbose\" is no level"),
            "{}",
            ended.log
        );
    }
}
