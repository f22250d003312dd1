//! Actions that Redis does not answer: they may have been done, so the log has them, and the page goes on where it was.

use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{NativeClient, RawHttp, Stack, eventually};

use crate::fixture::post_form;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_without_an_answer_are_logged_as_unknown() {
    let mut stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let job = json!({"payload": 1, "delay": "1h"});
    let id = client.call("POST", "/queues/q/jobs", &job).await;
    let id = id.expect(201).json()["id"].as_str().unwrap().to_owned();
    stack.redis.kill();
    let queue = "/ui/default/queues/shop/q";
    let new_id = "0123456789AB";
    let new_key = format!("do=create&new_id={new_id}&description=y&namespace=shop&scope=read");
    for (path, form, status) in [
        (
            format!("{queue}/act"),
            "do=cancel&step=run&matched=7&changed=5&cursor=0.0.0.0",
            200,
        ),
        (format!("{queue}/act"), "do=cancel&cursor=0.0.0.0", 503),
        (format!("{queue}/jobs/{id}"), "do=promote", 503),
        (queue.to_owned(), "do=pause", 503),
        ("/ui/keys".to_owned(), &new_key, 503),
    ] {
        let (answered, page) = post_form(&stack, &path, form).await;
        assert_eq!(answered, status, "{path} {form}: {page}");
        assert!(page.contains("Redis gave no answer"), "{page}");
        // It goes on when the button is pressed, not by itself.
        let continues = page.contains("name=\"cursor\"") && !page.contains("data-continue-ms");
        assert_eq!(continues, status == 200, "{page}");
    }
    let expected = [
        // What this request has done, not what its form says.
        ("act", "0 of 0 changed, result=unknown of more"),
        ("promote", id.as_str()),
        ("pause", "result=unknown"),
        ("create", "namespace=shop"),
    ];
    let limit = Duration::from_secs(20);
    eventually("all are logged", limit, async || {
        let log = stack.api(0).log();
        let lines: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("an operator acted") && line.contains("result=unknown"))
            .collect();
        let all = expected.iter().all(|(action, detail)| {
            let action = format!("action=\"{action}\"");
            lines
                .iter()
                .any(|line| line.contains(&action) && line.contains(detail))
        });
        match all && lines.len() == expected.len() {
            true => Ok(()),
            false => Err(lines.join("\n")),
        }
    })
    .await;
}

/// What was done is in the log, also if it was done after the client had left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_is_finished_and_logged_although_its_client_has_left() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let jobs = json!({"jobs": vec![json!({"payload": 1, "delay": "1h"}); 3]});
    let published = client.call("POST", "/queues/q/jobs/batch", &jobs).await;
    published.expect(200);
    stack.redis.pause().unwrap();
    let token = "t".repeat(32);
    let headers = [
        ("Cookie", format!("tidegate_form={token}")),
        (
            "Content-Type",
            "application/x-www-form-urlencoded".to_owned(),
        ),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value));
    let form = format!("do=cancel&step=run&matched=70&changed=50&form_token={token}");
    let mut http = RawHttp::connect(stack.api(0).admin()).await;
    let path = "/ui/default/queues/shop/q/act";
    http.request("POST", path, &headers, form.as_bytes()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(http);
    tokio::time::sleep(Duration::from_millis(500)).await;
    stack.redis.resume().unwrap();
    eventually("it is logged", Duration::from_secs(20), async || {
        let log = stack.api(0).log();
        match log.contains("action=\"act\"") && log.contains("3 of 3 changed;") {
            true => Ok(()),
            false => Err(log),
        }
    })
    .await;
    let queue = client.get("/queues/q").await.expect(200).json();
    assert_eq!(queue["jobs"]["delayed"], 0);
    stack.finish().await;
}

/// A browser that sends a form again, because its answer was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_that_is_sent_twice_creates_one_key() {
    let stack = Stack::builder().pumps(0).start().await;
    let client = NativeClient::new(stack.api(0), "shop").await;
    let form = "do=create&new_id=0123456789AB&description=y&namespace=shop&scope=read";
    let (status, page) = post_form(&stack, "/ui/keys", form).await;
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("tg_0123456789AB_"), "{page}");
    let (status, page) = post_form(&stack, "/ui/keys", form).await;
    assert_eq!(status, 400, "{page}");
    assert!(page.contains("0123456789AB"), "{page}");
    let keys = client.get("/keys").await.expect(200).json();
    let keys = keys["items"].as_array().unwrap();
    let made = keys.iter().filter(|key| key["description"] == "y");
    assert_eq!(made.count(), 1, "{keys:?}");
    stack.finish().await;
}
