//! Who may do what, and that no other site can.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{Answer, NativeClient, RawHttp, Stack, eventually};

use crate::browser::walk;
use crate::fixture::{DashboardFixture, post_form, publish};

const ACCOUNTS: &str = "[accounts]\nlook = \"a\"\ndesk = \"b\"\nboss = \"c\"\n[account_roles]\nlook = \"view\"\ndesk = \"operate\"\n";

/// The address of the admin port with a login.
fn base_of(stack: &Stack, login: &str) -> String {
    format!("http://{login}@{}", stack.api(0).admin())
}

/// A deployment with accounts, and a client of the namespace `shop`, whose key was made before there were accounts.
pub(crate) async fn with_accounts() -> (Stack, NativeClient) {
    let stack = Stack::builder().start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    stack.change_api_config(ACCOUNTS);
    stack.api(0).restart().await;
    let client = NativeClient::with_key(stack.api(0), "shop", client.key());
    (stack, client)
}

/// Sends a form with these headers to the queue `q` of `shop`.
async fn post(stack: &Stack, headers: &[(&str, &str)], form: &str) -> Answer {
    let mut http = RawHttp::connect(stack.api(0).admin()).await;
    let mut all: Vec<(String, String)> = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    all.push((
        "Content-Type".to_owned(),
        "application/x-www-form-urlencoded".to_owned(),
    ));
    http.request("POST", "/ui/default/queues/shop/q", &all, form.as_bytes())
        .await;
    http.answer().await.expect("an answer")
}

/// The line of the log that says who did what.
async fn logged_action(stack: &Stack) -> String {
    eventually(
        "the action is logged",
        Duration::from_secs(20),
        async || {
            let log = stack.api(0).log();
            let line = log.lines().find(|line| line.contains("an operator acted"));
            line.map(str::to_owned).ok_or(log)
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_decide_which_buttons_there_are_and_what_is_done() {
    let (stack, client) = with_accounts().await;
    publish(&client, &json!({"delay": "1h"})).await;
    let schedule = json!({"queue": "q", "every": "1h", "job": {"payload": 1}});
    let set = client.call("PUT", "/schedules/often", &schedule).await;
    set.expect(201);
    let sink = json!({"kind": "nats", "url": "nats://nats.example:4222", "subject": "shop.orders"});
    let relay = json!({"source": {"kind": "queue", "queue": "q"}, "sink": sink});
    let set = client.call("PUT", "/relays/hook", &relay).await;
    set.expect(201);
    for (login, operates, administers) in [
        ("look:a", false, false),
        ("desk:b", true, false),
        ("boss:c", true, true),
    ] {
        let name = login.split(':').next().unwrap();
        walk(
            &format!("role-{name}"),
            &base_of(&stack, login),
            async |browser| {
                browser.open_page("/ui/default/queues/shop/q").await;
                browser.shows(name).await;
                assert_eq!(browser.offers("Pause deliveries").await, operates);
                assert_eq!(browser.offers("Refuse new jobs").await, administers);
                // It is kept up to date with the same login.
                browser.shows("Up to date").await;
                browser.open_page("/ui/default/queues/shop/q/jobs").await;
                assert_eq!(browser.offers("Count them first").await, operates);
                browser.open_page("/ui/default/schedules/shop/often").await;
                browser.shows("Next ticks").await;
                assert_eq!(browser.offers("Pause the schedule").await, operates);
                assert_eq!(browser.offers("Delete the schedule").await, administers);
                browser.open_page("/ui/relays/shop/hook").await;
                browser.shows("nats.example").await;
                assert_eq!(browser.offers("Pause the relay").await, operates);
                browser.open_page("/ui/keys").await;
                browser.shows("Scopes").await;
                assert_eq!(browser.offers("Revoke").await, administers);
                assert_eq!(browser.offers("Create the key").await, administers);
            },
        )
        .await;
    }
    stack.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_without_its_cookie_or_of_a_lower_role_is_refused() {
    let (stack, client) = with_accounts().await;
    publish(&client, &json!({"delay": "1h"})).await;
    let token = "t".repeat(32);
    let cookie = format!("tidegate_form={token}");
    let paused = format!("do=pause&form_token={token}");
    let look = ("Authorization", "Basic bG9vazph");
    let desk = ("Authorization", "Basic ZGVzazpi");
    let with_cookie = ("Cookie", cookie.as_str());
    let is_paused = async || {
        let policy = client.get("/queues/q/policy").await.expect(200).json();
        policy["paused"] == true
    };
    for (headers, form, status) in [
        (vec![with_cookie], paused.as_str(), 401),
        (vec![look, with_cookie], &paused, 403),
        (vec![desk], &paused, 403),
        (vec![desk, with_cookie], "do=pause", 403),
        (vec![desk, with_cookie], "do=pause&form_token=other", 403),
        (
            vec![desk, with_cookie, ("Origin", "http://other.example")],
            &paused,
            403,
        ),
        (
            vec![desk, with_cookie, ("Sec-Fetch-Site", "cross-site")],
            &paused,
            403,
        ),
        (
            vec![desk, with_cookie],
            &paused.replace("pause", "close"),
            403,
        ),
        (
            vec![desk, with_cookie],
            &paused.replace("pause", "explode"),
            400,
        ),
        (
            vec![desk, with_cookie],
            &format!("{paused}&more={}", "x".repeat(70_000)),
            400,
        ),
    ] {
        let answer = post(&stack, &headers, form).await;
        assert_eq!(answer.status, status, "{headers:?} {form:.80}");
        assert!(!is_paused().await, "{headers:?} {form:.80}");
    }
    post(&stack, &[desk, with_cookie], &paused)
        .await
        .expect(303);
    assert!(is_paused().await);
    // Who did it is in the log.
    let line = logged_action(&stack).await;
    for part in [
        "account=\"desk\"",
        "action=\"pause\"",
        "shop/q",
        "peer=\"127.0.0.1",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    stack.finish().await;
}

/// The log has what was done with which values, also if it has no other lines of level info.
#[tokio::test]
async fn actions_are_logged_with_their_values_at_any_level() {
    let stack = Stack::builder()
        .api_config("[log]\nlevel = \"error\"\n")
        .start()
        .await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let path = "/ui/default/queues/shop/q";
    let id = publish(&client, &json!({"delay": "1h"})).await;
    let job = format!("{path}/jobs/{id}");
    for (path, form, logged) in [
        (path, "do=limit&max_running=5", "detail=\"max_running=5\""),
        (path, "do=limit", "detail=\"max_running=none\""),
        (
            &job,
            "do=change&delay=5m",
            &format!("detail=\"{id} delay=5m\""),
        ),
        (
            &job,
            "do=cancel&running=ask",
            &format!("detail=\"{id} running=ask\""),
        ),
    ] {
        let (status, _) = post_form(&stack, path, form).await;
        // The client follows the redirection.
        assert_eq!(status, 200, "{form}");
        eventually(
            "it is logged",
            Duration::from_secs(20),
            async || match stack.api(0).log() {
                log if log.contains(logged) => Ok(()),
                log => Err(log),
            },
        )
        .await;
    }
    let log = stack.api(0).log();
    assert!(log.lines().all(|line| line.contains("INFO audit")), "{log}");
    stack.finish().await;
}

#[tokio::test]
async fn pages_forbid_frames_foreign_content_and_caches() {
    let fixture = DashboardFixture::new().await;
    let answer = reqwest::get(format!("{}/ui", fixture.base()))
        .await
        .unwrap();
    let headers = answer.headers();
    let policy = headers["content-security-policy"].to_str().unwrap();
    for part in [
        "default-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'self'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    let cookie = headers["set-cookie"].to_str().unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    let page = answer.text().await.unwrap();
    // All that a page loads is its own.
    let foreign = page
        .split(['"', '\''])
        .find(|part| part.starts_with("http") || part.starts_with("//"));
    assert_eq!(foreign, None);
}

/// A page that is kept up to date ends with its account. The file has another account, so that the port stays closed.
#[tokio::test]
async fn a_removed_account_loses_its_open_page() {
    let stack = Stack::builder().start().await;
    stack.change_api_config(ACCOUNTS);
    stack.api(0).restart().await;
    let mut page = RawHttp::connect(stack.api(0).admin()).await;
    let headers = [
        ("Authorization", "Basic bG9vazph"),
        ("Accept", "text/event-stream"),
        ("Connection", "close"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    page.request("GET", "/ui/default/queues", &headers, b"")
        .await;
    assert_eq!(page.head().await.unwrap().status, 200);
    // A reload that changes no account ends no page.
    let reloads = || stack.api(0).log().matches("reloaded settings").count();
    for (config, number) in [
        (format!("{ACCOUNTS}[job]\ntries = 5\n"), 1),
        ("[accounts]\nboss = \"c\"\n".to_owned(), 2),
    ] {
        stack.change_api_config(&config);
        stack.api(0).reload();
        eventually("it is reloaded", Duration::from_secs(20), async || {
            if reloads() == number {
                Ok(())
            } else {
                Err(reloads())
            }
        })
        .await;
        if number == 1 {
            let limit = Duration::from_secs(3);
            let ended = tokio::time::timeout(limit, page.rest()).await;
            assert!(ended.is_err(), "{ended:?}");
        }
    }
    let ended = tokio::time::timeout(Duration::from_secs(20), page.rest()).await;
    let rest = String::from_utf8_lossy(&ended.unwrap()).into_owned();
    assert!(rest.ends_with("0\r\n\r\n"), "{rest}");
    stack.finish().await;
}

/// More pages than are kept up to date: the others can still be loaded.
#[tokio::test]
async fn too_many_open_pages_do_not_fill_the_port() {
    let stack = Stack::builder().start().await;
    let url = format!("{}/ui/default/queues", stack.api(0).admin_url());
    let client = reqwest::Client::new();
    let mut streams = Vec::new();
    let mut refused = 0;
    for _ in 0..70 {
        let answer = client
            .get(&url)
            .header("Accept", "text/event-stream")
            .send()
            .await
            .unwrap();
        match answer.status().as_u16() {
            200 => streams.push(answer),
            503 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!((streams.len(), refused), (64, 6));
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    // Pages that are closed make room.
    drop(streams);
    eventually("there is room again", Duration::from_secs(20), async || {
        let answer = client
            .get(&url)
            .header("Accept", "text/event-stream")
            .send()
            .await
            .unwrap();
        if answer.status() == 200 {
            Ok(())
        } else {
            Err(answer.status())
        }
    })
    .await;
    stack.finish().await;
}
