//! Forms that were not sent from a page of the dashboard, and those of lower roles, for everything that can be set.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{NativeClient, RawHttp, Stack, eventually};

use crate::access::with_accounts;

/// Sends a form, and returns the status.
async fn post(stack: &Stack, path: &str, headers: &[(&str, &str)], form: &str) -> u16 {
    let mut http = RawHttp::connect(stack.api(0).admin()).await;
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let all = headers.iter().copied().chain([kind]);
    let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let all: Vec<_> = all.collect();
    http.request("POST", path, &all, form.as_bytes()).await;
    http.answer().await.expect("an answer").status
}

/// What the forms would change.
async fn state(client: &NativeClient) -> String {
    let mut all = String::new();
    for path in ["/schedules", "/relays", "/keys"] {
        let list = client.get(path).await.expect(200).json();
        all.push_str(&list.to_string());
    }
    all
}

/// A form, and whether it needs the role `admin`.
struct SignedForm {
    path: &'static str,
    fields: String,
    is_of_admin: bool,
}

/// Sets a schedule, a relay and a key, and returns all forms that change them.
async fn forms(client: &NativeClient) -> Vec<SignedForm> {
    let schedule = json!({"queue": "q", "every": "1h", "job": {"payload": 1}});
    let schedule = client.call("PUT", "/schedules/often", &schedule).await;
    let schedule = schedule.expect(201).json()["revision"].clone();
    let sink = json!({"kind": "nats", "url": "nats://nats.example:4222", "subject": "shop.orders"});
    let relay = json!({"source": {"kind": "queue", "queue": "q"}, "sink": sink});
    let relay = client.call("PUT", "/relays/hook", &relay).await;
    let relay = relay.expect(201).json()["revision"].clone();
    let key = json!({"scopes": ["read"], "description": "x"});
    let key = client.call("POST", "/keys", &key).await.expect(201).json();
    let (schedule, relay) = (schedule.as_str().unwrap(), relay.as_str().unwrap());
    let id = key["key"]["id"].as_str().unwrap();
    let of_schedule = "/ui/default/schedules/shop/often";
    let new_key =
        "do=create&new_id=0123456789AB&description=y&namespace=shop&scope=admin".to_owned();
    [
        (of_schedule, format!("do=pause&revision={schedule}"), false),
        (
            of_schedule,
            format!("do=delete&step=run&revision={schedule}"),
            true,
        ),
        (
            "/ui/relays/shop/hook",
            format!("do=pause&revision={relay}"),
            false,
        ),
        ("/ui/keys", format!("do=revoke&step=run&id={id}"), true),
        ("/ui/keys", new_key, true),
    ]
    .map(|(path, fields, is_of_admin)| SignedForm {
        path,
        fields,
        is_of_admin,
    })
    .into()
}

/// The four lines of the log that say who did what.
async fn logged(stack: &Stack) -> Vec<String> {
    eventually("all is logged", Duration::from_secs(20), async || {
        let log = stack.api(0).log();
        let lines = log
            .lines()
            .filter(|line| line.contains("an operator acted"));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        if lines.len() == 4 {
            Ok(lines)
        } else {
            Err(lines.join("\n"))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forms_need_the_cookie_of_their_page_and_the_role_of_their_action() {
    let (stack, client) = with_accounts().await;
    let forms = forms(&client).await;
    let token = "t".repeat(32);
    let cookie = format!("tidegate_form={token}");
    let cookie = ("Cookie", cookie.as_str());
    let look = ("Authorization", "Basic bG9vazph");
    let desk = ("Authorization", "Basic ZGVzazpi");
    let boss = ("Authorization", "Basic Ym9zczpj");
    let before = state(&client).await;
    for form in &forms {
        let (path, unsigned) = (form.path, form.fields.as_str());
        let signed = format!("{unsigned}&form_token={token}");
        let foreign = ("Origin", "http://other.example");
        for (headers, body, status) in [
            (vec![cookie], signed.as_str(), 401),
            (vec![boss], &signed, 403),
            (vec![boss, cookie], unsigned, 403),
            (vec![boss, cookie, foreign], &signed, 403),
            (vec![look, cookie], &signed, 403),
        ] {
            let answered = post(&stack, path, &headers, body).await;
            assert_eq!(answered, status, "{path} {body} {headers:?}");
        }
        if form.is_of_admin {
            assert_eq!(post(&stack, path, &[desk, cookie], &signed).await, 403);
        }
        assert_eq!(state(&client).await, before, "{path} {unsigned}");
    }
    // With the right role each does what it says.
    for form in &forms {
        let account = if form.is_of_admin { boss } else { desk };
        let signed = format!("{}&form_token={token}", form.fields);
        let before = state(&client).await;
        let answered = post(&stack, form.path, &[account, cookie], &signed).await;
        assert!([200, 303].contains(&answered), "{signed}: {answered}");
        // The pause has made a newer revision of the schedule.
        let is_stale = form.fields.starts_with("do=delete");
        assert_eq!(state(&client).await == before, is_stale, "{signed}");
    }
    // Who did what is in the log; what was refused, or came too late, is not.
    for (line, parts) in logged(&stack).await.iter().zip([
        [
            "account=\"desk\"",
            "action=\"pause\"",
            "schedule=shop/often",
        ],
        ["account=\"desk\"", "action=\"pause\"", "relay=shop/hook"],
        ["account=\"boss\"", "action=\"revoke\"", "api_key="],
        ["account=\"boss\"", "action=\"create\"", "description=y"],
    ]) {
        for part in parts {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }
    stack.finish().await;
}
