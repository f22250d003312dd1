//! Access tokens on the public routes.

use crate::session::{play, session};

const NO_TOKEN: &str = r#"{"error":"token not found"}"#;
const BAD_TOKEN: &str = r#"{"error":"invalid token"}"#;
const NO_POOL: &str = r#"{"error":"pool not found"}"#;

/// Every route that needs a token.
const ROUTES: [(&str, &str); 11] = [
    ("PUT", ""),
    ("PUT", "/bulk"),
    ("PUT", "/job/x"),
    ("GET", ""),
    ("GET", "/peek"),
    ("GET", "/job/x"),
    ("DELETE", "/job/x"),
    ("DELETE", ""),
    ("GET", "/deadletter"),
    ("PUT", "/deadletter"),
    ("DELETE", "/deadletter"),
];

#[tokio::test]
async fn every_route_but_the_sizes_needs_a_valid_token() {
    let mut session = session().await;
    for (method, suffix) in ROUTES {
        let rows = format!(
            "
            > {method} /api/$ns/$q{suffix}\n - X-Token\n < 401 {NO_TOKEN}
            > {method} /api/$ns/$q{suffix}\n + X-Token: nonsense\n < 401 {BAD_TOKEN}
            > {method} /api/$ns/$q{suffix}\n + X-Token: nowhere:$token\n < 404 {NO_POOL}
            > {method} /api/$ns/$q{suffix}?token=nonsense\n - X-Token\n < 401 {BAD_TOKEN}
            > {method} /api/$ns/$q{suffix}?token=\n - X-Token\n < 401 {NO_TOKEN}
            "
        );
        session.play(&rows).await;
    }
}

#[tokio::test]
async fn a_token_comes_in_the_header_or_in_the_query() {
    play(
        r#"
        > PUT /api/$ns/$q?token=$token
        - X-Token
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/$q
        + x-token: $token
        < 201 {"job_id":"$id:b","msg":"published"}
        # an empty header does not count
        > PUT /api/$ns/$q?token=$token
        + X-Token:
        < 201 {"job_id":"$id:c","msg":"published"}
        # the header takes precedence over the query, whether it is valid or not
        > PUT /api/$ns/$q?token=$token
        + X-Token: nonsense
        < 401 {"error":"invalid token"}
        > PUT /api/$ns/$q?token=nonsense
        < 201 {"job_id":"$id:d","msg":"published"}
        > PUT /api/$ns/$q?token=nonsense&token=$token
        - X-Token
        < 401 {"error":"invalid token"}
        # of several headers the first counts
        > PUT /api/$ns/$q
        + X-Token: $token
        + X-Token: nonsense
        < 201 {"job_id":"$id:e","msg":"published"}
        > PUT /api/$ns/$q
        + X-Token: nonsense
        + X-Token: $token
        < 401 {"error":"invalid token"}
        # a token that cannot be decoded is ignored
        > PUT /api/$ns/$q?token=%zz
        - X-Token
        < 401 {"error":"token not found"}
        > PUT /api/$ns/$q?token=%zz&token=$token
        - X-Token
        < 201 {"job_id":"$id:f","msg":"published"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_token_may_name_its_pool() {
    play(
        r#"
        > PUT /api/$ns/$q
        + X-Token: default:$token
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/$q
        + X-Token: :$token
        < 201 {"job_id":"$id:b","msg":"published"}
        > PUT /api/$ns/$q?token=default:$token
        - X-Token
        < 201 {"job_id":"$id:c","msg":"published"}
        # the first colon ends the pool
        > PUT /api/$ns/$q
        + X-Token: default:default:$token
        < 401 {"error":"invalid token"}
        > PUT /api/$ns/$q
        + X-Token: Default:$token
        < 404 {"error":"pool not found"}
        > PUT /api/$ns/$q
        + X-Token: default:
        < 401 {"error":"token not found"}
        > PUT /api/$ns/$q
        + X-Token: :
        < 401 {"error":"token not found"}
        # the pool is looked up before the token
        > PUT /api/$ns/$q
        + X-Token: nowhere:
        < 404 {"error":"pool not found"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_token_opens_its_own_namespace_only() {
    let mut session = session().await;
    session.set("other", &format!("{}x", session.value("ns").to_owned()));
    // If a server joined namespace and token, moving one letter between them would give the same key.
    session.set("glued", &format!("x{}", session.value("token").to_owned()));
    session
        .play(
            r#"
            > PUT /api/$ns/$q
            < 201 {"job_id":"$id:a","msg":"published"}
            > PUT /api/$other/$q
            < 401 {"error":"invalid token"}
            > PUT /api/$ns/$q
            + X-Token: $glued
            < 401 {"error":"invalid token"}
            > @admin POST /token/$ns?description=test&token=$glued
            < 201 {\n    "token": "$glued"\n}
            > PUT /api/$ns/$q
            + X-Token: $glued
            < 201 {"job_id":"$id:b","msg":"published"}
            > PUT /api/$other/$q
            ! namespace and token are not joined
            < 401 {"error":"invalid token"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn the_token_is_checked_before_parameters_and_bodies() {
    play(
        r#"
        > PUT /api/$ns/$q?delay=x
        - X-Token
        < 401 {"error":"token not found"}
        > PUT /api/$ns/$q/bulk
        + X-Token: nonsense
        | nonsense
        < 401 {"error":"invalid token"}
        > GET /api/$ns/$q?ttr=x
        + X-Token: nowhere:x
        < 404 {"error":"pool not found"}
        > GET /api/$ns/,
        - X-Token
        < 401 {"error":"token not found"}
        > PUT /api/$ns/$q/deadletter?limit=0
        - X-Token
        < 401 {"error":"token not found"}
        "#,
    )
    .await;
}
