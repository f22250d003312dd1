//! Accounts of the admin port.

use std::time::Duration;

use tidegate_testkit::{Answer, Daemon, DaemonProgram, RawHttp, Stack, run_until_exit};

const LIMIT: Duration = Duration::from_secs(20);

/// `name:password` in base 64.
const OPS: &str = "T3BzOm9wZW4gc2VzYW1l"; // Ops:open sesame
const OTHER: &str = "b3RoZXI6w7w="; // other:ü
const WRONG: &str = "T3BzOm9wZW4gc2VzYW0="; // Ops:open sesam

const ACCOUNTS: &str = "[accounts]\nOps = \"open sesame\"\nother = \"ü\"";

async fn ask(api: &Daemon, method: &str, path: &str, credentials: &str) -> Answer {
    let mut http = RawHttp::connect(api.admin()).await;
    let mut headers = Vec::new();
    if !credentials.is_empty() {
        let value = format!("Basic {credentials}");
        headers.push(("Authorization".to_owned(), value));
    }
    http.request(method, path, &headers, b"").await;
    http.answer().await.unwrap()
}

#[tokio::test]
async fn tokens_keys_and_limits_require_an_account_and_other_routes_do_not() {
    // The stack itself makes no token: it has no account.
    let stack = Stack::builder().api_config(ACCOUNTS).start().await;
    let api = stack.api(0);
    for (method, path, status) in [
        ("GET", "/token/ns", 200),
        ("POST", "/token/ns?description=x", 201),
        ("DELETE", "/token/ns/t", 204),
        ("GET", "/limits", 200),
        ("GET", "/token/ns/t/limit", 404),
        ("POST", "/token/ns/t/limit", 400),
        ("PUT", "/token/ns/t/limit", 400),
        ("DELETE", "/token/ns/t/limit", 200),
        ("GET", "/v1/*/keys", 200),
        ("POST", "/v1/*/keys", 400),
        ("DELETE", "/v1/*/keys/000000000000", 404),
        ("GET", "/v1/ns/queues", 200),
        ("GET", "/v1/nowhere/else", 404),
        ("POST", "/accesslog?status=disable", 200),
    ] {
        // A failed login delays the next.
        let refused: &[&str] = match path {
            "/limits" => &["", "nonsense", WRONG],
            _ => &[""],
        };
        for credentials in refused {
            let answer = ask(api, method, path, credentials).await;
            assert_eq!((answer.status, answer.text()), (401, String::new()));
            let challenge = Some("Basic realm=\"Authorization Required\"");
            assert_eq!(answer.header("www-authenticate"), challenge);
            assert!(answer.header("x-request-id").is_some());
        }
        for credentials in [OPS, OTHER] {
            let answer = ask(api, method, path, credentials).await;
            assert_eq!(answer.status, status, "{method} {path}");
        }
    }
    for path in ["/version", "/pools", "/metrics", "/info", "/accesslog"] {
        ask(api, "GET", path, "").await.expect(200);
    }
    ask(api, "GET", "/nowhere", "").await.expect(404);
    ask(api, "PATCH", "/limits", "").await.expect(404);
    assert!(!api.log().contains("open sesame"));
    stack.finish().await;
}

#[tokio::test]
async fn an_open_admin_port_is_refused_unless_allowed() {
    let stack = Stack::builder().start().await;
    let url = stack.redis.url();
    let open = ["--redis", &url, "--listen", "127.0.0.1:0", "--admin-listen"];
    let refused = [&open[..], &["0.0.0.0:0"]].concat();
    let ended = run_until_exit(DaemonProgram::Api, &refused, LIMIT).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.log.contains("--allow-open-admin"), "{}", ended.log);
    // With the flag the API gets as far as listening, and fails because the port is in use.
    let taken = stack.api(0).admin();
    let taken = format!("0.0.0.0:{}", taken.port());
    let allowed = [&open[..], &[&taken, "--allow-open-admin"]].concat();
    let ended = run_until_exit(DaemonProgram::Api, &allowed, LIMIT).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.log.contains("in use"), "{}", ended.log);
    stack.finish().await;
}
