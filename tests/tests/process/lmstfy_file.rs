//! Daemons that are started with a configuration file of lmstfy.

use tidegate_testkit::{DaemonProgram, run_until_exit};

use crate::fixture::{DaemonFixture, LIMIT, ask, until_said};

/// The relevant part of the file in lmstfy's Docker image: a public admin port and no accounts.
const OPEN: &str = "\
Host = \"127.0.0.1\"
Port = 7777
AdminHost = \"0.0.0.0\"
AdminPort = 7778
EnableAccessLog = true
[AdminRedis]
Addr = \"localhost:6379\"
[Pool]
[Pool.default]
Addr = \"localhost:6379\"
";

#[tokio::test]
async fn both_daemons_share_one_file() {
    let fixture = DaemonFixture::new().await;
    let address = fixture.redis.url().replace("redis://", "");
    let text = OPEN
        .replace("0.0.0.0", "127.0.0.1")
        .replace(
            "[AdminRedis]",
            "TTLSecond = 50\nColour = \"blue\"\n[Accounts]\nops = \"hunter2\"\n[AdminRedis]",
        )
        .replace(
            "[AdminRedis]\nAddr = \"localhost:6379\"",
            &format!("[AdminRedis]\nDB = 1\nAddr = \"{address}\""),
        )
        .replace(
            "[Pool.default]\nAddr = \"localhost:6379\"",
            &format!("[Pool.default]\nPoolSize = 9\nAddr = \"{address}\""),
        );
    let file = fixture.write("lmstfy.toml", &text);
    let api = fixture
        .start(DaemonProgram::Api, &["--lmstfy-config", &file])
        .await;
    let pump = fixture
        .start(DaemonProgram::Pumpd, &["--lmstfy-config", &file])
        .await;
    for said in ["Pool.default.PoolSize is ignored", "Colour is ignored"] {
        until_said(&api, said).await;
    }
    until_said(&pump, "not used by tidegate-pumpd: accounts, admin_listen").await;
    ask(api.admin(), "GET", "/token/ns", &[]).await.expect(401);
    let ops = [("Authorization", "Basic b3BzOmh1bnRlcjI=")];
    ask(api.admin(), "POST", "/token/ns?description=x", &ops)
        .await
        .expect(201);
    assert!(!api.log().contains("hunter2"));
    assert_eq!(tokens_in(&fixture, 0), 0);
    assert_eq!(tokens_in(&fixture, 1), 1, "tokens are stored in AdminRedis");
}

/// The number of namespaces that have tokens in a database.
fn tokens_in(fixture: &DaemonFixture, database: u8) -> usize {
    let url = format!("{}/{database}", fixture.redis.url());
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("tg:tokens:*")
        .query(&mut connection)
        .unwrap();
    keys.len()
}

#[tokio::test]
async fn print_config_names_ignored_keys() {
    let fixture = DaemonFixture::new().await;
    let text = OPEN
        .replace("0.0.0.0", "127.0.0.1")
        .replace("DB", "")
        .replace("[Pool.default]", "[Pool.default]\nPoolSize = 9");
    let file = fixture.write("lmstfy.toml", &text);
    // The file of Tidegate overrides that of lmstfy.
    let own = fixture.write("own.toml", "[log]\naccess = false\n");
    let flags = ["--lmstfy-config", &file, "--config", &own, "--print-config"];
    let ended = run_until_exit(DaemonProgram::Api, &flags, LIMIT).await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    for line in [
        format!(
            "# lmstfy file {file}: Pool.default.PoolSize is ignored: one connection carries all calls"
        ),
        format!("listen = \"127.0.0.1:7777\"  # lmstfy file {file}"),
        format!("access = false  # config file {own}"),
        format!("url = \"redis://localhost:6379\"  # lmstfy file {file}"),
    ] {
        assert!(
            ended.log.lines().any(|found| found == line),
            "{line}:\n{}",
            ended.log
        );
    }
    // The pump does not use the admin port of the API.
    let ended = run_until_exit(
        DaemonProgram::Pumpd,
        &["--lmstfy-config", &file, "--print-config"],
        LIMIT,
    )
    .await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let admin = "admin_listen = \"127.0.0.1:7779\"";
    assert!(ended.log.lines().any(|line| line == admin), "{}", ended.log);
}

#[tokio::test]
async fn a_public_admin_port_without_accounts_is_refused() {
    let fixture = DaemonFixture::new().await;
    let file = fixture.write("lmstfy.toml", OPEN);
    let ended = run_until_exit(DaemonProgram::Api, &["-c", &file], LIMIT).await;
    assert_eq!(ended.code, Some(1));
    for word in [
        "0.0.0.0:7778",
        "[Accounts]",
        "AdminHost",
        "allow_open_admin",
    ] {
        assert!(ended.log.contains(word), "{word}: {}", ended.log);
    }
}

#[tokio::test]
async fn an_invalid_file_is_named_with_the_key() {
    let fixture = DaemonFixture::new().await;
    for (from, to, said) in [
        ("Port = 7777", "", "Port is missing"),
        ("Port = 7777", "Port = \"x\"", "Port must be a whole number"),
        ("[Pool.default]", "[Pool.other]", "[Pool.default]"),
        (
            "EnableAccessLog = true",
            "TTLSecond = 24 * 60 * 60 // 1 day",
            "line 5 (TTLSecond) is not TOML",
        ),
    ] {
        let text = OPEN.replace(from, to);
        let file = fixture.write("lmstfy.toml", &text);
        for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
            let ended = run_until_exit(program, &["--lmstfy-config", &file], LIMIT).await;
            assert_eq!(ended.code, Some(1), "{to}");
            let expected = format!("lmstfy file {file}: ");
            assert!(ended.log.contains(&expected), "{}", ended.log);
            assert!(ended.log.contains(said), "{said}: {}", ended.log);
        }
    }
    let ended = run_until_exit(DaemonProgram::Api, &["-c", "/nowhere/lmstfy.toml"], LIMIT).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.log.contains("lmstfy file /nowhere/lmstfy.toml: "),
        "{}",
        ended.log
    );
}
