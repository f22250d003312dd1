//! SIGHUP reloads settings.

use tidegate_testkit::{Daemon, DaemonProgram, eventually};

use crate::fixture::{DaemonFixture, LIMIT, ask};

const READ_AGAIN: &str = "reloaded settings";

/// Sends SIGHUP, waits until the daemon has logged this text once more, and returns its log.
async fn reload(daemon: &Daemon, says: &str) -> String {
    let count = || daemon.log().matches(says).count();
    let before = count();
    daemon.reload();
    eventually(&format!("it says {says:?}"), LIMIT, async || {
        if count() > before {
            Ok(())
        } else {
            Err(daemon.log())
        }
    })
    .await;
    daemon.log()
}

#[tokio::test]
async fn a_reload_changes_accounts_job_defaults_and_the_log_level() {
    let fixture = DaemonFixture::new().await;
    let file = fixture.write("own.toml", "skip_token_checks = true\n");
    let api = fixture
        .start(DaemonProgram::Api, &["--config", &file])
        .await;
    ask(api.admin(), "GET", "/token/ns", &[]).await.expect(200);
    ask(api.listen(), "PUT", "/api/ns/a", &[]).await.expect(201);
    let job = ask(api.listen(), "GET", "/api/ns/a", &[]).await.expect(200);
    assert_eq!(job.json()["remain_tries"], 0);
    assert!(!api.log().contains("DEBUG"));

    let text = "skip_token_checks = true\n[accounts]\nops = \"hunter2\"\n[job]\ntries = 5\n\
                [log]\nlevel = \"debug\"\n";
    fixture.write("own.toml", text);
    let log = reload(&api, READ_AGAIN).await;
    assert!(log.contains("accounts.ops, job.tries, log.level"), "{log}");
    assert!(!log.contains("needs a restart"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");
    ask(api.admin(), "GET", "/token/ns", &[]).await.expect(401);
    let ops = [("Authorization", "Basic b3BzOmh1bnRlcjI=")];
    ask(api.admin(), "GET", "/token/ns", &ops).await.expect(200);
    // An account with a lower role may not see tokens.
    let with_role = format!("{text}[account_roles]\nops = \"operate\"\n");
    fixture.write("own.toml", &with_role);
    let log = reload(&api, READ_AGAIN).await;
    assert!(log.contains("account_roles.ops"), "{log}");
    ask(api.admin(), "GET", "/token/ns", &ops).await.expect(403);
    ask(api.listen(), "PUT", "/api/ns/b", &[]).await.expect(201);
    let job = ask(api.listen(), "GET", "/api/ns/b", &[]).await.expect(200);
    assert_eq!(job.json()["remain_tries"], 4);
    let log = reload(&api, READ_AGAIN).await;
    assert!(log.contains("DEBUG"), "{log}");

    // A setting that is no longer in the file has its default again.
    let text = "skip_token_checks = true\n[accounts]\nops = \"hunter2\"\n";
    fixture.write("own.toml", text);
    reload(&api, READ_AGAIN).await;
    ask(api.listen(), "PUT", "/api/ns/c", &[]).await.expect(201);
    let job = ask(api.listen(), "GET", "/api/ns/c", &[]).await.expect(200);
    assert_eq!(job.json()["remain_tries"], 0);
    ask(api.admin(), "GET", "/token/ns", &ops).await.expect(200);
}

/// An editor or a script that writes the file in place leaves it empty for a moment.
#[tokio::test]
async fn a_reload_does_not_remove_the_last_account() {
    let fixture = DaemonFixture::new().await;
    let good = "[accounts]\nops = \"hunter2\"\ndesk = \"x\"\n";
    let file = fixture.write("own.toml", good);
    let api = fixture
        .start(DaemonProgram::Api, &["--config", &file])
        .await;
    for text in ["", "[accounts]\n", "[log]\nlevel = \"debug\"\n"] {
        fixture.write("own.toml", text);
        let log = reload(&api, "failed to reload settings").await;
        assert!(
            log.contains("removing all accounts needs a restart"),
            "{log}"
        );
        assert!(!log.contains("DEBUG"), "{log}");
        ask(api.admin(), "GET", "/token/ns", &[]).await.expect(401);
        let ops = [("Authorization", "Basic b3BzOmh1bnRlcjI=")];
        ask(api.admin(), "GET", "/token/ns", &ops).await.expect(200);
    }
    // Some of them may go.
    fixture.write("own.toml", "[accounts]\nops = \"hunter3\"\n");
    reload(&api, READ_AGAIN).await;
    let ops = [("Authorization", "Basic b3BzOmh1bnRlcjM=")];
    ask(api.admin(), "GET", "/token/ns", &ops).await.expect(200);
}

#[tokio::test]
async fn settings_that_need_a_restart_are_named_on_each_reload() {
    let fixture = DaemonFixture::new().await;
    for (program, text, names) in [
        (
            DaemonProgram::Api,
            "drain_timeout = \"3s\"\n[pool.more]\nurl = \"redis://h\"\n[job]\ntries = 2\n",
            "needs a restart: drain_timeout, pool.more.url",
        ),
        (
            DaemonProgram::Pumpd,
            "[pump]\nlease = \"9s\"\n[pool.default]\ncommand_timeout = \"4s\"\n",
            "needs a restart: pool.default.command_timeout, pump.lease",
        ),
    ] {
        let file = fixture.write("own.toml", "");
        let daemon = fixture.start(program, &["--config", &file]).await;
        fixture.write("own.toml", text);
        for _ in 0..2 {
            reload(&daemon, names).await;
        }
        fixture.write("own.toml", "");
        let log = reload(&daemon, READ_AGAIN).await;
        assert_eq!(log.matches("needs a restart").count(), 2, "{log}");
    }
}

#[tokio::test]
async fn an_invalid_file_changes_nothing() {
    let fixture = DaemonFixture::new().await;
    let good = "[accounts]\nops = \"hunter2\"\n";
    let file = fixture.write("own.toml", good);
    let api = fixture
        .start(DaemonProgram::Api, &["--config", &file])
        .await;
    for (text, names) in [
        ("[accounts\n", "line 1"),
        ("colour = \"blue\"\n", "colour"),
        ("[job]\ntries = 0\n", "job.tries"),
        ("[log]\nlevel = \"loud\"\n", "log.level"),
        ("admin_listen = 1\n", "admin_listen"),
    ] {
        fixture.write("own.toml", text);
        let log = reload(&api, "failed to reload settings").await;
        // A flag overrides the address in the file, which is checked all the same.
        assert!(log.contains(names), "{text}: {log}");
        ask(api.admin(), "GET", "/token/ns", &[]).await.expect(401);
    }
    std::fs::remove_file(fixture.path("own.toml")).unwrap();
    let log = reload(&api, "failed to reload settings").await;
    assert!(log.contains("No such file"), "{log}");
    fixture.write("own.toml", good);
    reload(&api, READ_AGAIN).await;
    assert!(!api.log().contains("hunter2"));
}

#[tokio::test]
async fn a_file_that_has_grown_large_is_refused_and_not_read_into_memory() {
    let fixture = DaemonFixture::new().await;
    let file = fixture.write("own.toml", "");
    let pump = fixture
        .start(DaemonProgram::Pumpd, &["--config", &file])
        .await;
    let before = pump.resident_bytes_peak();
    let large = std::fs::File::options().write(true).open(&file).unwrap();
    large.set_len(512 << 20).unwrap();
    let log = reload(&pump, "failed to reload settings").await;
    assert!(log.contains("own.toml: larger than 1 MiB"), "{log}");
    let more = pump.resident_bytes_peak() - before;
    assert!(more < 50 << 20, "{more} bytes");
    fixture.write("own.toml", "[log]\nlevel = \"debug\"\n");
    reload(&pump, READ_AGAIN).await;
}

#[tokio::test]
async fn a_reload_reads_the_lmstfy_file_too() {
    let fixture = DaemonFixture::new().await;
    let address = fixture.redis.url().replace("redis://", "");
    let text = format!(
        "Host = \"127.0.0.1\"\nPort = 1\nAdminPort = 2\n[Pool.default]\nAddr = \"{address}\"\n"
    );
    let file = fixture.write("lmstfy.toml", &text);
    let api = fixture.start(DaemonProgram::Api, &["-c", &file]).await;
    fixture.write("lmstfy.toml", &format!("{text}[Accounts]\nops = \"x\"\n"));
    let log = reload(&api, READ_AGAIN).await;
    assert!(log.contains("changed=\"accounts.ops\""), "{log}");
    ask(api.admin(), "GET", "/token/ns", &[]).await.expect(401);
}
