//! Invalid requests: each is answered, changes nothing, and leaves the connection open.

use serde_json::{Value, json};
use tidegate_testkit::{Answer, RawHttp};

use crate::fixture::{YouzanStack, stored_jobs};

/// Requests, and what the error has to say. The first two of each row are path and body.
const REQUESTS: [(&str, &str, &str); 31] = [
    ("/", "", "must be a JSON object"),
    ("/", "{", "must be a JSON object"),
    ("/", "[]", "must be a JSON object"),
    ("/", "\u{0}", "must be a JSON object"),
    ("/", "{}", "\"command\" is missing"),
    ("/", r#"{"command":1}"#, "\"command\" must be a text"),
    (
        "/",
        r#"{"command":"get","id":"1"}"#,
        "unknown command \"get\"",
    ),
    (
        "/",
        r#"{"command":"ADD"}"#,
        "send add, pop, finish or delete",
    ),
    ("/", r#"{"command":"add"}"#, "\"topic\" is missing"),
    (
        "/",
        r#"{"command":"add","topic":"a","id":"1","topic":"b"}"#,
        "\"topic\" is there twice",
    ),
    ("/", r#"{"command":"add","topic":"a"}"#, "\"id\" is missing"),
    (
        "/",
        r#"{"command":"add","topic":null}"#,
        "\"topic\" is missing",
    ),
    (
        "/",
        r#"{"command":"add","topic":" ","id":"1"}"#,
        "the topic \"\"",
    ),
    (
        "/",
        r#"{"command":"add","topic":"a,b","id":"1"}"#,
        "the topic \"a,b\"",
    ),
    (
        "/",
        r#"{"command":"add","topic":"a","id":""}"#,
        "1 to 255 bytes",
    ),
    (
        "/",
        r#"{"command":"add","topic":"a","id":"\n1\u0000"}"#,
        "without control characters",
    ),
    (
        "/",
        r#"{"command":"add","topic":"a","id":"1","delay":-1}"#,
        "0 to 2147483647, not -1",
    ),
    (
        "/",
        r#"{"command":"add","topic":"a","id":"1","delay":1e300}"#,
        "not 1e+300",
    ),
    (
        "/",
        r#"{"command":"add","topic":"a","id":"1","delay":2147483648}"#,
        "2147483648",
    ),
    (
        "/",
        r#"{"command":"add","topic":"a","id":"1","delay":0,"TTR":86401}"#,
        "\"TTR\" must",
    ),
    (
        "/",
        r#"{"command":"add","topic":"a","id":"1","delay":0,"TTR":1}"#,
        "\"body\" is missing",
    ),
    (
        "/",
        r#"{"command":"add","topic":"a","id":"1","delay":0,"TTR":1,"body":[]}"#,
        "\"body\" must",
    ),
    ("/", r#"{"command":"pop"}"#, "\"topic\" is missing"),
    ("/", r#"{"command":"pop","topic":"a,,b"}"#, "the topic \"\""),
    (
        "/",
        r#"{"command":"pop","topic":"a","timeout":-5}"#,
        "\"timeout\" must",
    ),
    ("/", r#"{"command":"finish"}"#, "\"id\" is missing"),
    (
        "/",
        r#"{"command":"delete","id":"1","topic":","}"#,
        "the topic \",\"",
    ),
    (
        "/push",
        r#"{"topic":"a","id":"1","delay":"0"}"#,
        "\"delay\" must be a whole number",
    ),
    ("/pop", r#"{"topic":["a"]}"#, "\"topic\" must be a text"),
    (
        "/finish",
        r#"{"id":17}"#,
        "\"id\" must be a text in quotes, not a number",
    ),
    ("/get", r#"{}"#, "\"id\" is missing"),
];

/// The error of an answer, which must be a failure in the form of its path.
#[track_caller]
fn error(path: &str, answer: &Answer) -> String {
    let mut json = answer.json();
    let (error, form) = match path {
        "/" => (
            json["error"].take(),
            json!({"success": false, "error": null, "id": "", "value": ""}),
        ),
        _ => (
            json["message"].take(),
            json!({"code": 1, "message": null, "data": null}),
        ),
    };
    assert_eq!(json, form, "{answer}");
    error.as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn an_invalid_request_is_answered_and_changes_nothing() {
    let YouzanStack { stack, client } =
        YouzanStack::start("[requests]\njob_bytes_max = 1000").await;
    client.add("a", "1", 3600, "stays").await;
    let mut http = RawHttp::connect(client.address).await;
    let mut post = async |path: &str, body: &str| {
        http.request("POST", path, &[], body.as_bytes()).await;
        http.answer().await.expect("the connection stays open")
    };
    for (path, body, said) in REQUESTS {
        let answer = post(path, body).await.expect(200);
        let error = error(path, &answer);
        assert!(error.contains(said), "{body}: {error}");
    }
    let add = |bytes: usize| json!({"command": "add", "topic": "a", "id": "2", "delay": 3600, "TTR": 1, "body": "ü".repeat(bytes / 2)});
    let answer = post("/", &add(1002).to_string()).await.expect(200);
    assert!(error("/", &answer).contains("1002 bytes; at most 1000"));
    let answer = post("/", &add(200_000).to_string()).await.expect(200);
    assert!(error("/", &answer).contains("too large"), "{answer}");
    let answer = post("/", &add(1000).to_string()).await.expect(200);
    assert_eq!(answer.json()["success"], Value::Bool(true), "{answer}");
    let answer = post("/jobs", "{}").await.expect(404);
    assert!(error("/", &answer).contains("no such path"));
    http.request("PUT", "/push", &[], b"{}").await;
    let answer = http.answer().await.unwrap().expect(405);
    assert_eq!(answer.header("allow"), Some("POST"));
    assert!(error("/push", &answer).contains("POST only"));
    let totals = stack.totals().await;
    assert_eq!(stored_jobs(&stack).await, 2);
    assert_eq!(totals.delayed, 2);
    let rejected = stack.api(0).metric_with_label(
        "tidegate_youzan_commands_total",
        r#"command="unknown",outcome="rejected""#,
    );
    assert_eq!(rejected.await, 10.0, "two that are too large or no command");
    client.delete("1").await;
    client.delete("2").await;
    stack.finish().await;
}
