//! `tidegate doctor` on deployments with and without problems.

use std::net::SocketAddr;

use serde_json::Value;
use tidegate_testkit::{
    CertificateAuthority, NativeClient, RedisControl, RedisOptions, Stack, TlsProxy, WallClock,
    eventually,
};

use super::command_line::CommandLine;
use super::{LIMIT, SERVER};

/// The findings of a run.
struct Findings {
    code: i32,
    report: Value,
}

impl Findings {
    fn of(cli: &CommandLine, arguments: &[&str]) -> Self {
        Self::with_environment(cli, arguments, &[])
    }

    fn with_environment(
        cli: &CommandLine,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Self {
        let mut command = cli.command(&[&["doctor", "--json"], arguments].concat());
        let variables = environment.iter();
        command.envs(variables.map(|(name, value)| (*name, value)));
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(cli.key.is_empty() || !text.contains(&cli.key), "{text}");
        let error = String::from_utf8(output.stderr).unwrap();
        Self {
            code: output.status.code().unwrap(),
            report: serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{error}")),
        }
    }

    fn rows(&self, result: &str) -> Vec<&Value> {
        let rows = self.report["checks"].as_array().unwrap().iter();
        rows.filter(|row| row["result"] == result).collect()
    }

    /// The only problem: its check, its detail, its remedy.
    fn only_problem(&self) -> [&str; 3] {
        let problems = self.rows("problem");
        assert_eq!((self.code, problems.len()), (1, 1), "{}", self.report);
        assert_eq!(self.report["problems"], 1);
        ["check", "detail", "remedy"].map(|name| problems[0][name].as_str().unwrap())
    }

    fn problems(&self) -> Vec<&str> {
        let problems = self.rows("problem").into_iter();
        problems.map(|row| row["check"].as_str().unwrap()).collect()
    }

    fn detail(&self, check: &str) -> &str {
        let rows = self.report["checks"].as_array().unwrap();
        let row = rows.iter().find(|row| row["check"] == check);
        row.unwrap_or_else(|| panic!("{check}: {}", self.report))["detail"]
            .as_str()
            .unwrap()
    }
}

fn at(url: &str, key: &str) -> CommandLine {
    CommandLine::unconnected(url, key)
}

#[tokio::test]
async fn a_deployment_without_problems_passes_and_is_not_changed() {
    let redis = RedisOptions::new().setting("maxmemory", "1gb");
    let stack = Stack::builder().redis(redis).start().await;
    let cli = CommandLine::connected(&stack, "healthy").await;
    let pump = format!("http://{}", stack.pump(0).admin());
    let arguments = ["--admin", &stack.api(0).admin_url(), "--pump", &pump];
    let found = eventually("the pump is ready", LIMIT, async || {
        let found = Findings::of(&cli, &arguments);
        match found.code {
            0 => Ok(found),
            _ => Err(found.report.to_string()),
        }
    })
    .await;
    assert!(found.problems().is_empty(), "{}", found.report);
    assert!(
        found
            .detail("key")
            .ends_with("publish, consume, read, admin")
    );
    for check in [
        "server", "clock", "ready", "admin", "version", "accounts", "pool", "memory", "redis",
        "timers", "pump",
    ] {
        assert!(!found.detail(check).is_empty());
    }
    let text = cli.out(&["doctor"]);
    assert!(
        text.starts_with("ok       server    http://127.0.0.1:"),
        "{text}"
    );
    assert!(text.ends_with("\nNo problems.\n"), "{text}");
    assert_eq!(cli.json(&["queue", "ls"]), serde_json::json!([]));
    stack.finish().await;
}

#[tokio::test]
async fn what_is_not_the_api_is_named() {
    let stack = SERVER.acquire().await;
    let url = |address: SocketAddr| format!("http://{address}");
    let api = stack.api(0);
    let problem = |url: &str| {
        let found = Findings::of(&at(url, "k-of-no-server"), &[]);
        assert_eq!(found.code, 1, "{}", found.report);
        // A pump may have another problem just after its start: it is not ready.
        let row = *found.rows("problem").last().unwrap();
        let [check, detail, remedy] = ["check", "detail", "remedy"].map(|name| &row[name]);
        format!("{check}: {detail} -> {remedy}").replace('"', "")
    };
    for (url, parts) in [
        (
            "localhost",
            ["server: the URL names no server", "write it like http://"],
        ),
        (
            "http://no-such-host.invalid",
            ["no-such-host.invalid has no address", "DNS"],
        ),
        (
            "http://127.0.0.1:1",
            ["no process listens on 127.0.0.1:1", "7777"],
        ),
        (
            &url(api.admin()),
            [
                "port: http://127.0.0.1",
                "7777 by default, and this URL with --admin",
            ],
        ),
        (
            &url(stack.pump(0).admin()),
            ["of a pump", "of tidegate-api"],
        ),
        (
            &format!("https://{}", api.listen()),
            ["server: TLS with", "write http://"],
        ),
        (
            &url(stack.redis.address()),
            ["does not answer HTTP", "check the port"],
        ),
    ] {
        let message = problem(url);
        assert!(
            parts.iter().all(|part| message.contains(part)),
            "{url}: {message}"
        );
    }
}

#[tokio::test]
async fn tls_is_checked() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "tls").await;
    let authority = CertificateAuthority::new();
    let certificate = authority.certificate("127.0.0.1");
    let proxy = TlsProxy::start(stack.api(0).listen(), &certificate, None).await;
    let https = CommandLine {
        url: format!("https://{}", proxy.address()),
        ..cli
    };
    let plain = at(&format!("http://{}", proxy.address()), "k-of-no-server");
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("authority.pem");
    std::fs::write(&trusted, authority.pem()).unwrap();
    let checking = tokio::task::spawn_blocking(move || {
        let unknown = Findings::of(&https, &[]);
        let trusted = [("SSL_CERT_FILE", trusted.display().to_string())];
        let known = Findings::with_environment(&https, &[], &trusted);
        (unknown, known, Findings::of(&plain, &[]))
    });
    let (unknown, known, plain) = checking.await.unwrap();
    let [_, detail, remedy] = unknown.only_problem();
    assert!(
        detail.contains("certificate") && remedy.contains("SSL_CERT_FILE"),
        "{detail}"
    );
    assert_eq!(known.code, 0, "{}", known.report);
    let [_, _, remedy] = plain.only_problem();
    assert!(remedy.contains("https://"), "{remedy}");
}

#[tokio::test]
async fn keys_and_their_scopes_are_checked() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "scopes").await;
    let [check, detail, remedy] = Findings::of(&cli.with_key(""), &[])
        .only_problem()
        .map(str::to_owned);
    assert_eq!(
        (check.as_str(), detail.as_str()),
        ("key", "no API key is given")
    );
    assert!(remedy.contains("TG_KEY"), "{remedy}");
    let unknown = cli.with_key("tg_AAAAAAAAAAAA_BBBBBBBBBBBBBBBBBBBBBBBBBB");
    let found = Findings::of(&unknown, &[]);
    assert!(
        found.only_problem()[2].contains("revoked"),
        "{}",
        found.report
    );
    let elsewhere = NativeClient::new(stack.api(0), "elsewhere").await;
    let found = Findings::of(&cli.with_key(elsewhere.key()), &[]);
    assert!(
        found.only_problem()[2].contains("TG_NAMESPACE"),
        "{}",
        found.report
    );
    let some = NativeClient::with_scopes(stack.api(0), cli.namespace, &["publish", "read"]).await;
    let some = cli.with_key(some.key());
    let found = Findings::of(&some, &["--scope", "read"]);
    assert_eq!(found.code, 0, "{}", found.report);
    assert!(
        found.detail("key").ends_with("with publish, read"),
        "{}",
        found.report
    );
    let found = Findings::of(&some, &["--scope", "read,consume", "--scope", "admin"]);
    assert!(
        found.only_problem()[1].ends_with("it lacks consume, admin"),
        "{}",
        found.report
    );
}

#[tokio::test]
async fn a_wrong_clock_is_found() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "clock").await;
    let folder = tempfile::tempdir().unwrap();
    let clock = WallClock::new(folder.path(), "cli");
    for (seconds, part) in [(100, "ahead of"), (-100, "behind")] {
        clock.set(seconds);
        let found = Findings::with_environment(&cli, &[], &clock.environment());
        let [check, detail, remedy] = found.only_problem();
        assert_eq!(check, "clock", "{detail}");
        assert!(detail.contains(part) && remedy.contains("NTP"), "{detail}");
    }
}

#[tokio::test]
async fn the_admin_port_is_checked() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "admin").await;
    let api = stack.api(0);
    // Redis has no memory limit.
    let found = Findings::of(&cli, &["--admin", &api.admin_url()]);
    assert_eq!(found.only_problem()[0], "memory");
    let found = Findings::of(&cli, &["--admin", &api.url()]);
    assert!(found.only_problem()[2].contains("7778"), "{}", found.report);
    let found = Findings::of(&cli, &["--pump", &api.admin_url()]);
    assert!(found.only_problem()[2].contains("7779"), "{}", found.report);
    let found = Findings::of(&cli, &["--pump", "http://127.0.0.1:1"]);
    assert_eq!(found.only_problem()[0], "pump");
    let error = cli.error(
        2,
        &[
            "doctor",
            "--admin",
            "http://127.0.0.1:1",
            "--admin-user",
            "ops",
        ],
    );
    assert!(error.contains("TG_ADMIN_PASSWORD"), "{error}");
}

#[tokio::test]
async fn accounts_are_checked() {
    let redis = RedisOptions::new().setting("maxmemory", "1gb");
    let accounts = "[accounts]\nops = \"right\"";
    let stack = Stack::builder()
        .redis(redis)
        .api_config(accounts)
        .start()
        .await;
    let admin = stack.api(0).admin_url();
    let cli = at(&stack.api(0).url(), "");
    let found = Findings::of(&cli, &["--admin", &admin]);
    assert_eq!(found.problems(), ["key"], "{}", found.report);
    assert_eq!(found.detail("accounts"), "the admin port needs an account");
    let arguments = ["--admin", &admin, "--admin-user", "ops"];
    for (password, problems) in [("right", vec!["key"]), ("wrong", vec!["key", "accounts"])] {
        let environment = [("TG_ADMIN_PASSWORD", password.to_owned())];
        let found = Findings::with_environment(&cli, &arguments, &environment);
        assert_eq!(found.problems(), problems, "{}", found.report);
        assert!(!found.report.to_string().contains(password));
    }
    stack.finish().await;
}

/// A login says nothing about a port that asks for none.
#[tokio::test]
async fn an_admin_port_without_accounts_is_found_also_with_a_login() {
    let stack = SERVER.acquire().await;
    let cli = CommandLine::connected(&stack, "open-port").await;
    let arguments = ["--admin", &stack.api(0).admin_url(), "--admin-user", "ops"];
    let environment = [("TG_ADMIN_PASSWORD", "any".to_owned())];
    let found = Findings::with_environment(&cli, &arguments, &environment);
    let accounts = found.detail("accounts");
    assert!(accounts.contains("has no accounts"), "{}", found.report);
}

#[tokio::test]
async fn missing_pumps_and_an_unavailable_redis_are_found() {
    let redis = RedisOptions::new().setting("maxmemory", "1gb");
    let settings = "[metrics]\nrefresh = \"200ms\"";
    let stack = Stack::builder()
        .redis(redis)
        .api_config(settings)
        .start()
        .await;
    let cli = CommandLine::connected(&stack, "failing").await;
    let admin = stack.api(0).admin_url();
    let pump = stack.pump(0).admin_url();
    stack.pump(0).kill();
    let found = Findings::of(&cli, &["--admin", &admin, "--pump", &pump]);
    assert_eq!(found.problems(), ["pump"], "{}", found.report);
    stack.redis.pause().unwrap();
    eventually("the unavailable Redis is found", LIMIT, async || {
        let found = Findings::of(&cli, &["--admin", &admin]);
        let problems = found.problems();
        match problems.contains(&"ready") && problems.contains(&"pool") {
            true => Ok(()),
            false => Err(found.report.to_string()),
        }
    })
    .await;
    stack.redis.resume().unwrap();
}

/// Daemons refuse such a server when they start, unless they are allowed to use it, and do not notice a later change.
#[tokio::test]
async fn settings_of_redis_that_lose_jobs_are_found() {
    let redis = RedisOptions::new()
        .setting("maxmemory", "1gb")
        .setting("maxmemory-policy", "allkeys-lru")
        .without_append_only_file();
    let stack = Stack::builder()
        .redis(redis)
        .allow_unsafe_redis()
        .api_config("[metrics]\nrefresh = \"200ms\"")
        .start()
        .await;
    let cli = CommandLine::connected(&stack, "unsafe").await;
    let admin = stack.api(0).admin_url();
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    let found = async |remedies: &[&str]| {
        eventually("the settings are found", LIMIT, async || {
            let found = Findings::of(&cli, &["--admin", &admin]);
            let problems = found.rows("problem");
            let are_expected = problems.len() == remedies.len()
                && problems.iter().zip(remedies).all(|(problem, remedy)| {
                    let text = problem["remedy"].as_str().unwrap();
                    problem["check"] == "redis" && text.contains(remedy)
                });
            match are_expected {
                true => Ok(()),
                false => Err(found.report.to_string()),
            }
        })
        .await;
    };
    found(&["appendonly yes", "maxmemory-policy noeviction"]).await;
    control.configure("appendonly", "yes").await;
    found(&["maxmemory-policy noeviction"]).await;
    control.configure("maxmemory-policy", "noeviction").await;
    found(&[]).await;
    control.configure("maxmemory-policy", "volatile-ttl").await;
    found(&["maxmemory-policy noeviction"]).await;
}

/// Daemons check it when they connect, and do not notice it later.
#[tokio::test]
async fn a_redis_that_was_emptied_is_found() {
    let stack = Stack::builder()
        .api_config("[metrics]\nrefresh = \"200ms\"")
        .start()
        .await;
    let cli = CommandLine::connected(&stack, "emptied").await;
    let admin = stack.api(0).admin_url();
    let layouts = async |result: &str| {
        eventually("the layout is checked", LIMIT, async || {
            let found = Findings::of(&cli, &["--admin", &admin]);
            let rows = found.rows(result);
            match rows.iter().find(|row| row["check"] == "layout") {
                Some(row) => Ok(row["remedy"].clone()),
                None => Err(found.report.to_string()),
            }
        })
        .await
    };
    assert!(layouts("ok").await.is_null());
    let mut control = RedisControl::connect(&stack.redis.url()).await;
    control.rename("tg:layout", "hidden").await;
    let remedy = layouts("problem").await;
    assert!(remedy.as_str().unwrap().contains("restore"), "{remedy}");
    control.rename("hidden", "tg:layout").await;
    layouts("ok").await;
}
