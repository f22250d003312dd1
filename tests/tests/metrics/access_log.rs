//! The access log: one line for each request while it is enabled.

use std::time::Duration;

use tidegate_testkit::{Answer, Daemon, RawHttp, Stack, eventually};

const LIMIT: Duration = Duration::from_secs(20);

async fn switch(api: &Daemon, method: &str, query: &str) -> Answer {
    let mut http = RawHttp::connect(api.admin()).await;
    http.request(method, &format!("/accesslog{query}"), &[], b"")
        .await;
    http.answer().await.unwrap()
}

fn lines(api: &Daemon) -> Vec<serde_json::Value> {
    let log = api.log();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines
        .filter(|line: &serde_json::Value| line["target"] == "access")
        .collect()
}

/// The line of the request whose answer had this id.
async fn line_of(api: &Daemon, answer: &Answer) -> serde_json::Value {
    let id = answer.header("x-request-id").unwrap();
    eventually("the line is written", LIMIT, async || {
        let lines = lines(api);
        let mut found = lines.iter().filter(|line| line["req_id"] == id);
        found.next().cloned().ok_or(api.log())
    })
    .await
}

#[tokio::test]
async fn every_request_is_logged_while_the_access_log_is_on() {
    let stack = Stack::builder()
        .api_config("[log]\nformat = \"json\"")
        .start()
        .await;
    let api = stack.api(0);
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    assert_eq!(
        switch(api, "POST", "?status=enable").await.text(),
        r#"{"status":"enabled"}"#
    );
    let path = format!("{}?delay=5&tries=2", queue.path());
    let published = queue.raw("PUT", &path).await.expect(201);
    let line = line_of(api, &published).await;
    for (field, value) in [
        ("level", "INFO"),
        ("pool", "default"),
        ("path", &queue.path()),
        ("query", "delay=5&tries=2"),
        ("ip", "127.0.0.1"),
        ("method", "PUT"),
    ] {
        assert_eq!(line[field], value, "{field} of {line}");
    }
    assert_eq!(line["code"], 201);
    assert!(line["latency"].as_str().unwrap().ends_with('s'), "{line}");
    let nothing = queue
        .sibling("nothing")
        .consume()
        .send()
        .await
        .unwrap()
        .expect(404);
    assert_eq!(line_of(api, &nothing).await["level"], "INFO");
    let bad = queue
        .raw("PUT", &format!("{}?delay=x", queue.path()))
        .await
        .expect(400);
    assert_eq!(line_of(api, &bad).await["level"], "WARN");
    let unmatched = queue.raw("PUT", "/nowhere?a=b").await.expect(404);
    assert_eq!(line_of(api, &unmatched).await["pool"], "");
    assert_eq!(
        lines(api).len(),
        4,
        "one line for each request since the log was enabled"
    );
    switch(api, "POST", "?status=disable").await.expect(200);
    queue.publish("x").id().await;
    switch(api, "POST", "?status=enable").await.expect(200);
    let last = queue.peek().await.expect(200);
    line_of(api, &last).await;
    assert_eq!(
        lines(api).len(),
        5,
        "no line from while the log was disabled"
    );
    stack.finish().await;
}

#[tokio::test]
async fn no_token_is_written_to_the_log() {
    let stack = Stack::builder()
        .api_config("[log]\nlevel = \"trace\"")
        .start()
        .await;
    let api = stack.api(0);
    let queue = stack.queue("q").await;
    switch(api, "POST", "?status=enable").await.expect(200);
    let token = queue.token();
    let encoded: String = token.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut http = RawHttp::connect(api.listen()).await;
    let mut answered = Vec::new();
    for query in [
        format!("token={token}"),
        format!("delay=1&token={encoded}"),
        format!("%74oken={token}"),
        format!("Token={token}"),
        format!("token=default:{token}"),
        format!("token={token};ttl=5"),
        format!("a=b;token={token}"),
        format!("token%zz={token}"),
        format!("token[]={token}"),
        format!("tokens={token}"),
    ] {
        let path = format!("{}/peek?{query}", queue.path());
        http.request("GET", &path, &[], b"").await;
        answered.push(http.answer().await.unwrap());
    }
    // In the place of another parameter or a name, and an API key.
    let key = tidegate_testkit::NativeClient::new(api, queue.namespace()).await;
    let secret = key.key();
    for path in [
        format!("{}/peek?key={token}", queue.path()),
        format!("{}/peek?{token}", queue.path()),
        format!("/api/{token}/q/peek"),
        format!("/api/{}/{encoded}/peek", queue.namespace()),
        format!("/v1/{}/queues?key={secret}", queue.namespace()),
        format!("/v1/{}/queues/{secret}", queue.namespace()),
        format!("/v1/{secret}/queues?cursor={secret}"),
    ] {
        http.request("GET", &path, &[], b"").await;
        answered.push(http.answer().await.unwrap());
    }
    for path in [
        format!("/token/{}/{token}", queue.namespace()),
        format!("/token/{}/{encoded}/limit", queue.namespace()),
        format!("/prefix/token/{}/{token}", queue.namespace()),
    ] {
        http.request("DELETE", &path, &[], b"").await;
        answered.push(http.answer().await.unwrap().expect(404));
    }
    let by_header = [("X-Token".to_owned(), token.to_owned())];
    http.request("GET", &queue.path(), &by_header, b"").await;
    answered.push(http.answer().await.unwrap().expect(404));
    let wanted = answered
        .iter()
        .map(|answer| answer.header("x-request-id").unwrap());
    let wanted: Vec<&str> = wanted.collect();
    eventually("all lines are written", LIMIT, async || {
        let log = api.log();
        if wanted.iter().all(|id| log.contains(id)) {
            Ok(())
        } else {
            Err(log)
        }
    })
    .await;
    let log = api.log();
    assert!(!log.contains(token) && !log.contains(&encoded), "{log}");
    let (_, secret) = secret.rsplit_once('_').unwrap();
    assert!(!log.contains(secret), "{log}");
    stack.finish().await;
}
