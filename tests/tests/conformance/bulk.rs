//! `PUT /api/:namespace/:queue/bulk`

use std::time::Duration;

use tidegate_testkit::eventually;

use crate::session::{play, session};
use crate::target::better;

#[tokio::test]
async fn jobs_are_published_in_order_and_kept_byte_for_byte() {
    let texts = [
        "\"abc\"",
        "1.50",
        "{\"b\" : [1,  2 ],\n\"a\":null, \"a\":1}",
        "null",
        "true",
        "-0",
        "1e999",
        "\"\\u00e9 \\ud800 \\/ \u{fc}\"",
        "[[], {} ]",
        "\"\"",
    ];
    let mut session = session().await;
    session.set("body", &texts.join(" ,\t\r\n "));
    session
        .play(
            r#"
            > PUT /api/$ns/$q/bulk
            |  [ $body ]
            < 201 {"job_ids":["$id:a","$id:b","$id:c","$id:d","$id:e","$id:f","$id:g","$id:h","$id:i","$id:j"],"msg":"published"}
            "#,
        )
        .await;
    let jobs = session.queue("q1").consume().count(100).jobs().await;
    let bodies: Vec<String> = jobs.iter().map(|job| job.text()).collect();
    assert_eq!(bodies, texts);
    let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    assert_eq!(ids, names.map(|name| session.value(name)));
    session.target.check().await;
}

#[tokio::test]
async fn deeply_nested_json_is_accepted() {
    let session = session().await;
    let queue = session.queue("deep");
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    queue.publish_bulk(std::slice::from_ref(&deep)).ids().await;
    assert_eq!(queue.consume().job().await.unwrap().text(), deep);
}

#[tokio::test]
async fn the_body_must_be_an_array() {
    let mut session = session().await;
    let bad = [
        "",
        " ",
        "{}",
        "{\"a\":[1]}",
        "1",
        "\"[]\"",
        "true",
        "[",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[01]",
        "[nul]",
        "[\"a]",
        "[1] 2",
        "[1]]",
        "[\"\\x\"]",
        "['a']",
        "[a]",
        "nulll",
    ];
    for body in bad {
        session.set("body", body);
        session
            .play(
                r#"
                > PUT /api/$ns/$q/bulk
                | $body
                < 400 {"error":"request body should be an array of objects"}
                "#,
            )
            .await;
    }
    session
        .play(
            r#"
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":0}
    "#,
        )
        .await;
}

#[tokio::test]
async fn a_bulk_has_1_to_64_jobs() {
    let mut session = session().await;
    session.set("at_most", &vec!["1"; 64].join(","));
    session.set("one_more", &vec!["1"; 65].join(","));
    session
        .play(
            r#"
            > PUT /api/$ns/$q/bulk
            | []
            < 400 {"error":"no jobs"}
            > PUT /api/$ns/$q/bulk
            |  [ ]
            < 400 {"error":"no jobs"}
            > PUT /api/$ns/$q/bulk
            | null
            < 400 {"error":"no jobs"}
            > PUT /api/$ns/$q/bulk
            | [$one_more]
            < 400 {"error":"too many jobs"}
            > PUT /api/$ns/other/bulk
            | [1]
            < 201 {"job_ids":["$id:a"],"msg":"published"}
            > GET /api/$ns/$q/size
            < 200 {"namespace":"$ns","queue":"$q","size":0}
            "#,
        )
        .await;
    let queue = session.queue("q1");
    let bodies: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    assert_eq!(queue.publish_bulk(&bodies).ids().await.len(), 64);
    let jobs = queue.consume().count(100).jobs().await;
    let found: Vec<String> = jobs.iter().map(|job| job.text()).collect();
    assert_eq!(found, bodies);
}

#[tokio::test]
async fn parameters_are_those_of_a_single_job_and_checked_before_the_body() {
    play(
        r#"
        > PUT /api/$ns/$q/bulk?delay=x&ttl=x
        | nonsense
        < 400 {"error":"invalid delay"}
        > PUT /api/$ns/$q/bulk?ttl=
        | nonsense
        < 400 {"error":"invalid ttl"}
        > PUT /api/$ns/$q/bulk?ttl=1&delay=2&tries=0
        | nonsense
        < 400 {"error":"ttl is shorter than delay"}
        > PUT /api/$ns/$q/bulk?tries=65536
        | nonsense
        < 400 {"error":"invalid tries"}
        > PUT /api/$ns/$q/bulk?tries=0
        | nonsense
        < 400 {"error":"tries shouldn't be zero"}
        > PUT /api/$ns/$q/bulk?ttl=10&tries=3
        | [1,2]
        < 201 {"job_ids":["$id:a","$id:b"],"msg":"published"}
        > GET /api/$ns/$q?count=2
        < 200 [{"attributes":null,"data":"MQ==","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":2,"ttl":$ttl:10},{"attributes":null,"data":"Mg==","elapsed_ms":$int,"job_id":"$b","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":2,"ttl":$ttl:10}]
        "#,
    )
    .await;
}

#[tokio::test]
async fn delayed_jobs_become_ready_together_and_in_order() {
    if !better("jobs that are due together become ready in the order in which they came") {
        return;
    }
    let session = session().await;
    let queue = session.queue("later");
    let bodies: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    queue.publish_bulk(&bodies).delay_s(1).ids().await;
    assert_eq!(queue.size().await, 0);
    let mut found = Vec::new();
    eventually("all are ready", Duration::from_secs(5), async || {
        let jobs = queue.consume().count(100).jobs().await;
        found.extend(jobs.iter().map(|job| job.text()));
        if found.len() == bodies.len() {
            Ok(())
        } else {
            Err(found.len())
        }
    })
    .await;
    assert_eq!(found, bodies);
    session.target.check().await;
}

#[tokio::test]
async fn a_job_of_a_bulk_has_at_most_1_mib() {
    const MIB: usize = 1024 * 1024;
    let session = session().await;
    let queue = session.queue("large");
    // A JSON string with its quotes.
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let whole = [text(MIB), text(MIB)];
    assert_eq!(queue.publish_bulk(&whole).ids().await.len(), 2);
    let one_large = ["1".to_owned(), text(MIB + 1)];
    let answer = queue.publish_bulk(&one_large).send().await.unwrap();
    assert_eq!(answer.expect(413).text(), r#"{"error":"job too large"}"#);
    assert_eq!(queue.size().await, 2);
    session.target.check().await;
}
