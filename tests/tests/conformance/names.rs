//! Names of namespaces and queues.

use crate::session::{play, session, session_in};

const TOO_LONG: &str = r#"{"error":"namespace or queue name too long"}"#;
const BAD_NAMESPACE: &str = r#"{"error":"namespace name contains forbidden characters"}"#;
const BAD_QUEUE: &str = r#"{"error":"queue name contains forbidden characters"}"#;

/// Every route with a queue in its path except consume, which has different rules.
const ROUTES: [(&str, &str); 12] = [
    ("PUT", ""),
    ("PUT", "/bulk"),
    ("PUT", "/job/x"),
    ("GET", "/peek"),
    ("GET", "/job/x"),
    ("DELETE", "/job/x"),
    ("DELETE", ""),
    ("GET", "/deadletter"),
    ("PUT", "/deadletter"),
    ("DELETE", "/deadletter"),
    ("GET", "/size"),
    ("GET", "/deadletter/size"),
];

#[tokio::test]
async fn a_name_has_at_most_255_bytes() {
    let namespace = format!("{}{:016x}", "n".repeat(239), rand::random::<u64>());
    let mut session = session_in(&namespace).await;
    session.set("q", &"q".repeat(255));
    session.set("long_q", &"q".repeat(256));
    session.set("long_ns", &"n".repeat(256));
    session
        .play(
            r#"
            > PUT /api/$ns/$q
            < 201 {"job_id":"$id:a","msg":"published"}
            > GET /api/$ns/$q
            < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
            "#,
        )
        .await;
    for (method, suffix) in ROUTES {
        let rows = format!(
            "> {method} /api/$ns/$long_q{suffix}\n< 400 {TOO_LONG}\n\
             > {method} /api/$long_ns/$q{suffix}\n< 400 {TOO_LONG}"
        );
        session.play(&rows).await;
    }
    session.target.check().await;
}

#[tokio::test]
async fn consume_does_not_limit_the_length_of_names() {
    let mut session = session().await;
    session.set("long_q", &"q".repeat(256));
    session.set("very_long_q", &"q".repeat(5000));
    session.set("long_ns", &"n".repeat(256));
    session
        .play(
            r#"
            > GET /api/$ns/$long_q
            < 404 {"msg":"no job available"}
            > GET /api/$ns/$long_q?timeout=1
            < 404 {"msg":"no job available"}
            > GET /api/$ns/$very_long_q,$q
            < 404 {"msg":"no job available"}
            # no token exists for such a namespace
            > GET /api/$long_ns/$q
            < 401 {"error":"invalid token"}
            # names too long for any queue do not affect others
            > PUT /api/$ns/$q
            < 201 {"job_id":"$id:a","msg":"published"}
            > GET /api/$ns/$long_q,$q
            < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
            "#,
        )
        .await;
}

#[tokio::test]
async fn names_are_letters_digits_dash_and_underscore() {
    let mut session = session().await;
    let bad = [
        "a.b", "a%20b", "%C3%BC", "a%0A", "a%00", "a:b", "a+b", "a~b", "a*", "a%5C", "%25", "a@b",
    ];
    for name in bad {
        for (method, suffix) in ROUTES {
            let rows = format!(
                "> {method} /api/$ns/{name}{suffix}\n< 400 {BAD_QUEUE}\n\
                 > {method} /api/{name}/$q{suffix}\n< 400 {BAD_NAMESPACE}"
            );
            session.play(&rows).await;
        }
        let rows = format!(
            "> GET /api/$ns/{name}\n< 400 {BAD_QUEUE}\n\
             > GET /api/$ns/$q,{name}\n< 400 {BAD_QUEUE}\n\
             > GET /api/{name}/$q\n< 400 {BAD_NAMESPACE}"
        );
        session.play(&rows).await;
    }
}

#[tokio::test]
async fn a_comma_separates_queues_for_consume_and_is_forbidden_elsewhere() {
    let mut session = session().await;
    for (method, suffix) in ROUTES {
        for name in ["a,b", "a%2Cb", ","] {
            let row = format!("> {method} /api/$ns/{name}{suffix}\n< 400 {BAD_QUEUE}");
            session.play(&row).await;
        }
    }
}

#[tokio::test]
async fn a_queue_begins_with_an_underscore_for_consume_only() {
    let mut session = session().await;
    for (method, suffix) in ROUTES {
        let row = format!("> {method} /api/$ns/_q{suffix}\n< 400 {BAD_QUEUE}");
        session.play(&row).await;
    }
    session
        .play("> GET /api/$ns/_q\n< 404 {\"msg\":\"no job available\"}")
        .await;
}

#[tokio::test]
async fn dashes_and_underscores_are_valid_elsewhere() {
    let namespace = format!("_-{:016x}_", rand::random::<u64>());
    let mut session = session_in(&namespace).await;
    for name in ["-", "-q", "q_", "q-_-", "0", "Q", "1-2_3"] {
        session.set("q", name);
        session
            .play(
                r#"
                > PUT /api/$ns/$q
                < 201 {"job_id":"$id:a","msg":"published"}
                > GET /api/$ns/$q
                < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
                "#,
            )
            .await;
    }
}

#[tokio::test]
async fn upper_and_lower_case_are_different_queues() {
    play(
        r#"
        > PUT /api/$ns/Q1
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/q1
        < 404 {"msg":"no job available"}
        > GET /api/$ns/Q1/size
        < 200 {"namespace":"$ns","queue":"Q1","size":1}
        "#,
    )
    .await;
}

#[tokio::test]
async fn words_of_the_routes_are_valid_names() {
    let mut session = session().await;
    for name in ["peek", "size", "job", "bulk", "deadletter", "api"] {
        session.set("q", name);
        session
            .play(
                r#"
                > PUT /api/$ns/$q
                < 201 {"job_id":"$id:a","msg":"published"}
                > GET /api/$ns/$q/size
                < 200 {"namespace":"$ns","queue":"$q","size":1}
                > GET /api/$ns/$q/peek
                < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","namespace":"$ns","queue":"$q","remain_tries":1,"ttl":$ttl:86400}
                > GET /api/$ns/$q
                < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
                "#,
            )
            .await;
    }
}

#[tokio::test]
async fn names_are_checked_before_tokens() {
    let mut session = session().await;
    session.set("long", &"n".repeat(256));
    session
        .play(&format!(
            "
            > PUT /api/$ns/a.b\n - X-Token\n < 400 {BAD_QUEUE}
            > PUT /api/a.b/$q\n + X-Token: nonsense\n < 400 {BAD_NAMESPACE}
            > PUT /api/$ns/$long\n + X-Token: nowhere:x\n < 400 {TOO_LONG}
            > GET /api/$ns/a.b\n - X-Token\n < 400 {BAD_QUEUE}
            > PUT /api/a.b/c.d\n - X-Token\n < 400 {BAD_NAMESPACE}
            > GET /api/a.b/c.d/size\n - X-Token\n < 400 {BAD_NAMESPACE}
            "
        ))
        .await;
}
