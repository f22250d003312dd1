//! HTTP features that clients may use.

use std::time::Duration;

use tidegate_testkit::RawHttp;

use crate::session::{play, session};

#[tokio::test]
async fn bodies_of_gets_and_deletes_are_ignored() {
    play(
        r#"
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q/peek
        + Content-Type: application/x-www-form-urlencoded
        | hello
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","namespace":"$ns","queue":"$q","remain_tries":1,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

#[tokio::test]
async fn bodies_of_gets_and_deletes_do_not_get_into_the_next_request() {
    let mut session = session().await;
    let body = "PUT /api/x/y HTTP/1.1\n".repeat(500);
    session.set("body", body.trim_end().lines().next().unwrap());
    for _ in 0..3 {
        session
            .play(
                r#"
                > PUT /api/$ns/$q
                | $body
                < 201 {"job_id":"$id:a","msg":"published"}
                > GET /api/$ns/$q?timeout=1
                | $body
                < 200 {"attributes":null,"data":"UFVUIC9hcGkveC95IEhUVFAvMS4x","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
                > GET /api/$ns/$q/job/$a
                | $body
                < 200 {"attributes":null,"data":"UFVUIC9hcGkveC95IEhUVFAvMS4x","elapsed_ms":$int,"job_id":"$a","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
                > DELETE /api/$ns/$q/job/$a
                | $body
                < 204
                > GET /api/$ns/$q/size
                | $body
                < 200 {"namespace":"$ns","queue":"$q","size":0}
                > GET /api/$ns/$q/deadletter
                | $body
                < 200 {"deadletter_head":"","deadletter_size":0,"namespace":"$ns","queue":"$q"}
                "#,
            )
            .await;
    }
}

#[tokio::test]
async fn a_waiting_consumer_may_send_a_large_body() {
    let session = session().await;
    let queue = session.queue("body");
    queue.publish("x").delay_s(1).id().await;
    let consume = queue.consume().timeout_s(10).body(vec![b'x'; 300_000]);
    assert_eq!(consume.job().await.unwrap().text(), "x");
}

#[tokio::test]
async fn a_client_may_wait_for_100_continue() {
    let session = session().await;
    let queue = session.queue("q1");
    let mut http = RawHttp::connect(session.target.public).await;
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        queue.path(),
        queue.token()
    );
    for _ in 0..2 {
        assert!(http.send(&head).await);
        assert_eq!(http.head().await.unwrap().status, 100);
        assert!(http.send("hello").await);
        http.answer().await.unwrap().expect(201);
    }
    assert_eq!(queue.consume().job().await.unwrap().text(), "hello");
}

#[tokio::test]
async fn a_body_may_come_in_chunks() {
    let session = session().await;
    let queue = session.queue("q1");
    let mut http = RawHttp::connect(session.target.public).await;
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: x\r\nX-Token: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        queue.path(),
        queue.token()
    );
    assert!(http.send(&head).await);
    for chunk in [
        "5\r\nhello\r\n",
        "1;extension=1\r\n \r\n",
        "5\r\nthere\r\n",
        "0\r\nTrailer: x\r\n\r\n",
    ] {
        assert!(http.send(chunk).await);
    }
    http.answer().await.unwrap().expect(201);
    assert_eq!(queue.consume().job().await.unwrap().text(), "hello there");
}

#[tokio::test]
async fn http_1_0_works_and_ends_the_connection() {
    let session = session().await;
    let queue = session.queue("q1");
    let mut http = RawHttp::connect(session.target.public).await;
    let request = format!(
        "PUT {} HTTP/1.0\r\nX-Token: {}\r\nContent-Length: 5\r\n\r\nhello",
        queue.path(),
        queue.token()
    );
    assert!(http.send(&request).await);
    http.answer().await.unwrap().expect(201);
    assert!(http.is_closed_within(Duration::from_secs(5)).await);
    assert_eq!(queue.size().await, 1);
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_ends_when_asked() {
    let session = session().await;
    let queue = session.queue("q1");
    let mut http = RawHttp::connect(session.target.public).await;
    let path = format!("{}/size", queue.path());
    for _ in 0..100 {
        http.request("GET", &path, &[], b"").await;
        http.answer().await.unwrap().expect(200);
    }
    let close = [("Connection".to_owned(), "close".to_owned())];
    http.request("GET", &path, &close, b"").await;
    http.answer().await.unwrap().expect(200);
    assert!(http.is_closed_within(Duration::from_secs(5)).await);
}

/// An id in a request is not used for its answer.
#[tokio::test]
async fn every_answer_has_a_fresh_request_id() {
    let mut session = session().await;
    for (method, path) in [
        ("GET", "/api/$ns/$q"),
        ("GET", "/nowhere"),
        ("DELETE", "/api/$ns/$q"),
    ] {
        let body = match path {
            "/nowhere" => "404 {\"error\":\"api not found\"}",
            _ if method == "DELETE" => "204",
            _ => "404 {\"msg\":\"no job available\"}",
        };
        let row =
            format!("> {method} {path}\n + X-Request-Id: 01ARZ3NDEKTSV4RRFFQ69G5FAV\n < {body}");
        // A session refuses an id that it has seen before, so the second answer would fail if the id were used.
        session.play(&row).await;
        session.play(&row).await;
    }
}

#[tokio::test]
async fn an_invalid_request_line_is_refused() {
    let session = session().await;
    for nonsense in [
        "hello\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
    ] {
        let mut http = RawHttp::connect(session.target.public).await;
        assert!(http.send(nonsense).await);
        if let Some(answer) = http.answer().await {
            assert!(
                (400..600).contains(&answer.status),
                "{nonsense:?}: {answer}"
            );
        }
        assert!(
            http.is_closed_within(Duration::from_secs(10)).await,
            "{nonsense:?}"
        );
    }
}

#[tokio::test]
async fn a_path_with_broken_percent_encoding_is_a_bad_request() {
    let mut session = session().await;
    for path in ["/api/%zz/q", "/api/ns/%", "/api/ns/q/job/%4", "/%"] {
        let mut http = RawHttp::connect(session.target.public).await;
        http.request("GET", path, &[], b"").await;
        http.answer().await.unwrap().expect(400);
    }
    session
        .play(
            r#"
            > GET /api/$ns/%zz
            ! the reason comes as JSON, with a request id
            < 400 {"error":"invalid percent-encoding in the path"}
            "#,
        )
        .await;
}
