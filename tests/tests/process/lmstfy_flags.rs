//! The flags of lmstfy, and its mode without tokens.

use tidegate_testkit::{DaemonProgram, run_until_exit};

use crate::fixture::{DaemonFixture, LIMIT, ask, until_said};

fn lmstfy_file(fixture: &DaemonFixture) -> String {
    let address = fixture.redis.url().replace("redis://", "");
    fixture.write(
        "lmstfy.toml",
        &format!(
            "Host = \"127.0.0.1\"\nPort = 7777\nAdminPort = 7778\nTriesNum = 3\n\
             [Pool.default]\nAddr = \"{address}\"\n"
        ),
    )
}

#[tokio::test]
async fn a_command_line_of_lmstfy_works_unchanged() {
    let fixture = DaemonFixture::new().await;
    let (file, pid_file) = (lmstfy_file(&fixture), fixture.name("lmstfy.pid"));
    let flags = ["-c", &file, "-p", &pid_file, "-sv", "-bt", "info"];
    let api = fixture.start(DaemonProgram::Api, &flags).await;
    let written = std::fs::read_to_string(&pid_file).unwrap();
    assert_eq!(written.trim(), api.pid().to_string());
    until_said(&api, "-bt has no effect").await;
    until_said(&api, "skip_token_checks: any client").await;
    // A setting of the file: three tries, so two are left.
    let published = ask(api.listen(), "PUT", "/api/ns/q", &[]).await.expect(201);
    let consumed = ask(api.listen(), "GET", "/api/ns/q", &[]).await.expect(200);
    assert_eq!(consumed.json()["job_id"], published.json()["job_id"]);
    assert_eq!(consumed.json()["remain_tries"], 2);
}

#[tokio::test]
async fn any_token_or_none_is_accepted_without_token_checks() {
    let fixture = DaemonFixture::new().await;
    let api = fixture
        .start(DaemonProgram::Api, &["--skip-token-checks"])
        .await;
    for headers in [
        &[][..],
        &[("X-Token", "nonsense")],
        &[("X-Token", "default:x")],
    ] {
        ask(api.listen(), "PUT", "/api/ns/q", headers)
            .await
            .expect(201);
        let job = ask(api.listen(), "GET", "/api/ns/q", headers)
            .await
            .expect(200);
        let id = job.json()["job_id"].as_str().unwrap().to_owned();
        ask(api.listen(), "GET", "/api/ns/q/peek", headers)
            .await
            .expect(404);
        ask(
            api.listen(),
            "DELETE",
            &format!("/api/ns/q/job/{id}"),
            headers,
        )
        .await
        .expect(204);
    }
    // Unknown pools and invalid names are still refused.
    let elsewhere = [("X-Token", "elsewhere:x")];
    ask(api.listen(), "GET", "/api/ns/q", &elsewhere)
        .await
        .expect(404);
    ask(api.listen(), "PUT", "/api/n.s/q", &[])
        .await
        .expect(400);
    let long = format!("/api/{}/q", "x".repeat(256));
    ask(api.listen(), "GET", &long, &[]).await.expect(400);
    // The limit of a token applies to requests with that token only.
    let body = b"{\"read\":0,\"write\":1,\"interval\":60}";
    let mut http = tidegate_testkit::RawHttp::connect(api.admin()).await;
    http.request("POST", "/token/ns/limited-token-limited/limit", &[], body)
        .await;
    http.answer().await.unwrap().expect(201);
    let limited = [("X-Token", "limited-token-limited")];
    ask(api.listen(), "PUT", "/api/ns/q", &limited)
        .await
        .expect(201);
    ask(api.listen(), "PUT", "/api/ns/q", &limited)
        .await
        .expect(429);
    ask(api.listen(), "PUT", "/api/ns/q", &[]).await.expect(201);
}

#[tokio::test]
async fn tokens_are_checked_if_the_skip_flag_is_false() {
    let fixture = DaemonFixture::new().await;
    let api = fixture.start(DaemonProgram::Api, &["-sv=false"]).await;
    ask(api.listen(), "PUT", "/api/ns/q", &[]).await.expect(401);
    ask(api.listen(), "PUT", "/api/ns/q", &[("X-Token", "nonsense")])
        .await
        .expect(401);
    assert!(!api.log().contains("skip_token_checks"), "{}", api.log());
}

#[tokio::test]
async fn every_version_flag_prints_the_version() {
    for flag in ["-v", "--version", "-V"] {
        let ended = run_until_exit(DaemonProgram::Api, &[flag], LIMIT).await;
        assert_eq!(ended.code, Some(0));
        assert!(ended.log.starts_with("tidegate-api "), "{}", ended.log);
    }
}

#[tokio::test]
async fn a_flag_with_a_missing_or_invalid_value_is_named() {
    for (flag, name) in [
        ("-c", "--lmstfy-config"),
        ("-p", "--pid-file"),
        ("-sv=maybe", "--skip-token-checks"),
    ] {
        let ended = run_until_exit(DaemonProgram::Api, &[flag], LIMIT).await;
        assert_eq!(ended.code, Some(2), "{flag}");
        assert!(ended.log.contains(name), "{flag}: {}", ended.log);
    }
}
