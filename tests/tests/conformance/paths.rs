//! Unknown methods and paths.

use tidegate_testkit::RawHttp;

use crate::session::{play, session};

const NOT_FOUND: &str = r#"{"error":"api not found"}"#;

#[tokio::test]
async fn unknown_paths_are_not_found() {
    let mut session = session().await;
    let paths = [
        "/",
        "/api",
        "/api/$ns",
        "/API/$ns/$q",
        "/apis/$ns/$q",
        "/api/$ns/$q/Peek",
        "/api/$ns/$q/nothing",
        "/api/$ns/$q/job",
        "/api/$ns/$q/job/a/b",
        "/api/$ns/$q/deadletter/sizes",
        "/api/$ns/$q/peek/x",
        "/v2/$ns/$q",
        "/favicon.ico",
    ];
    for path in paths {
        for method in ["GET", "PUT", "DELETE", "POST"] {
            let row = format!("> {method} {path}\n< 404 {NOT_FOUND}");
            session.play(&row).await;
        }
    }
}

#[tokio::test]
async fn unknown_methods_are_not_found_either() {
    let mut session = session().await;
    let paths = [
        "/api/$ns/$q",
        "/api/$ns/$q/bulk",
        "/api/$ns/$q/job/x",
        "/api/$ns/$q/peek",
        "/api/$ns/$q/deadletter",
        "/api/$ns/$q/size",
    ];
    for path in paths {
        for method in [
            "POST", "PATCH", "OPTIONS", "HEAD", "TRACE", "PROPFIND", "put",
        ] {
            let row = format!("> {method} {path}\n< 404 {NOT_FOUND}");
            session.play(&row).await;
        }
    }
    let rows = [
        ("PUT", "/size"),
        ("DELETE", "/size"),
        ("PUT", "/peek"),
        ("DELETE", "/peek"),
        ("GET", "/bulk"),
        ("DELETE", "/bulk"),
        ("PUT", "/deadletter/size"),
    ];
    for (method, suffix) in rows {
        let row = format!("> {method} /api/$ns/$q{suffix}\n< 404 {NOT_FOUND}");
        session.play(&row).await;
    }
}

#[tokio::test]
async fn unknown_routes_are_404_before_the_token_is_checked() {
    play(
        r#"
        > GET /api/$ns/$q/nothing
        - X-Token
        < 404 {"error":"api not found"}
        > POST /api/a.b/$q
        - X-Token
        < 404 {"error":"api not found"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn extra_slashes_are_not_removed() {
    play(
        r#"
        > GET /api/$ns/$q/
        < 404 {"error":"api not found"}
        > PUT /api/$ns/$q/
        < 404 {"error":"api not found"}
        > GET /api//$ns/$q
        < 404 {"error":"api not found"}
        > GET //api/$ns/$q
        < 404 {"error":"api not found"}
        > GET /api/./$ns/$q
        < 404 {"error":"api not found"}
        > GET /api/../api/$ns/$q
        < 404 {"error":"api not found"}
        > PUT /api//$q
        < 400 {"error":"namespace name contains forbidden characters"}
        > GET /api//$q
        < 400 {"error":"namespace name contains forbidden characters"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_missing_queue_redirects_to_the_path_without_slash() {
    play(
        r#"
        > GET /api/$ns/
        < 301
        = Location: /api/$ns
        > PUT /api/$ns/
        < 307
        = Location: /api/$ns
        "#,
    )
    .await;
}

/// The router itself answers them, before any other layer.
#[tokio::test]
async fn a_redirect_keeps_the_query_and_has_no_request_id() {
    let session = session().await;
    let target = format!("/api/{}/?a=1&b=%20", session.value("ns"));
    let location = target.replace("/?", "?");
    for (method, status) in [("GET", 301), ("PUT", 307)] {
        let mut http = RawHttp::connect(session.target.public).await;
        http.request(method, &target, &[], b"").await;
        let answer = http.answer().await.unwrap().expect(status);
        assert_eq!(answer.header("location"), Some(location.as_str()));
        assert_eq!(answer.header("x-request-id"), None);
        let page = (status == 301).then_some("text/html; charset=utf-8");
        assert_eq!(answer.header("content-type"), page);
        assert_eq!(answer.body.is_empty(), status == 307);
    }
}

#[tokio::test]
async fn an_id_with_a_slash_is_another_path() {
    play(
        r#"
        > DELETE /api/$ns/$q/job/a%2Fb
        < 404 {"error":"api not found"}
        > GET /api/$ns/$q/job/a%2fb
        < 404 {"error":"api not found"}
        > PUT /api/$ns/$q/job/%2F
        < 404 {"error":"api not found"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn names_in_paths_are_percent_decoded() {
    play(
        r#"
        > PUT /api/$ns/%71%31
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/q1/size
        < 200 {"namespace":"$ns","queue":"q1","size":1}
        > DELETE /api/$ns/q1/job/%2e%2e
        < 204
        "#,
    )
    .await;
}
