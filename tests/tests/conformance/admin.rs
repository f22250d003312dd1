//! The routes of the admin port for tokens.

use tidegate_testkit::RawHttp;

use crate::session::{play, session};

#[tokio::test]
async fn a_token_is_made_listed_used_and_deleted() {
    play(
        r#"
        > @admin POST /token/$ns?description=hello%20world
        < 201 {\n    "token": "$token:made"\n}
        > PUT /api/$ns/$q
        + X-Token: $made
        < 201 {"job_id":"$id:a","msg":"published"}
        > @admin DELETE /token/$ns/$made
        < 204
        > @admin DELETE /token/$ns/$made
        < 204
        # other processes may cache it for some seconds
        > PUT /api/$ns/$q
        + X-Token: $made
        ~ 15s
        < 401 {"error":"invalid token"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn tokens_are_listed_with_their_descriptions() {
    let mut session = session().await;
    session.set(
        "empty",
        &format!("{}-empty", session.value("ns").to_owned()),
    );
    session.set("chosen", "chosen-by-the-user-00");
    session
        .play(
            r#"
            > @admin GET /token/$empty
            < 200 {\n    "tokens": {}\n}
            > @admin POST /token/$empty?description=one&token=$chosen
            < 201 {\n    "token": "$chosen"\n}
            > @admin GET /token/$empty
            < 200 {\n    "tokens": {\n        "$chosen": "one"\n    }\n}
            > @admin GET /token/$empty?pool=default
            < 200 {\n    "tokens": {\n        "default:$chosen": "one"\n    }\n}
            > @admin GET /token/$empty?pool=nowhere
            < 400 {"error":"the pool was not exists"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn description_and_token_may_come_in_a_form() {
    let mut session = session().await;
    session.set("chosen", "chosen-by-the-user-01");
    session
        .play(
            r#"
            > @admin POST /token/$ns
            + Content-Type: application/x-www-form-urlencoded
            | description=some+words&token=$chosen
            < 201 {\n    "token": "$chosen"\n}
            > PUT /api/$ns/$q
            + X-Token: $chosen
            < 201 {"job_id":"$id:a","msg":"published"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn an_invalid_request_for_a_token_is_refused_with_the_reason() {
    let mut session = session().await;
    session.set("long", &"n".repeat(256));
    session.set("chosen", "chosen-by-the-user-02");
    session
        .play(
            r#"
            > @admin POST /token/$ns
            < 400 {"error":"invalid description"}
            > @admin POST /token/$ns?description=
            < 400 {"error":"invalid description"}
            > @admin POST /token/$ns
            + Content-Type: application/json
            | {"description":"x"}
            < 400 {"error":"invalid description"}
            > @admin POST /token/$ns?description=x&token=1234567890123456789
            < 400 {"error":"the user token was too short"}
            > @admin POST /token/$long?description=x
            < 400 {"error":"the namespace name was too long"}
            > @admin POST /token/a.b?description=x
            < 400 {"error":"namespace name contains forbidden characters"}
            > @admin POST /token/$ns?description=x&pool=nowhere
            < 400 {"error":"the pool was not exists"}
            > @admin POST /token/$ns?description=x&token=$chosen
            < 201 {\n    "token": "$chosen"\n}
            > @admin POST /token/$ns?description=x&token=$chosen
            < 400 {"error":"the token has already existed"}
            > @admin DELETE /token/$ns/nowhere:x
            < 400 {"error":"the pool was not exists"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn a_token_may_be_made_for_a_named_pool() {
    play(
        r#"
        > @admin POST /token/$ns?description=x&pool=default
        < 201 {\n    "token": "$token:made"\n}
        > PUT /api/$ns/$q
        + X-Token: default:$made
        < 201 {"job_id":"$id:a","msg":"published"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn unknown_admin_paths_are_not_found() {
    play(
        r#"
        > @admin GET /nowhere
        ! plain text names its character set
        < 404 404 page not found
        = Content-Type: text/plain; charset=utf-8
        > @admin GET /
        ! plain text names its character set
        < 404 404 page not found
        = Content-Type: text/plain; charset=utf-8
        "#,
    )
    .await;
}

#[tokio::test]
async fn the_pool_comes_in_the_query_or_before_the_token() {
    let mut session = session().await;
    session.set("chosen", "chosen-by-the-user-03");
    session
        .play(
            r#"
            # not in the form
            > @admin POST /token/$ns
            + Content-Type: application/x-www-form-urlencoded
            | description=x&pool=nowhere
            < 201 {\n    "token": "$token:made"\n}
            # before the token it counts more than in the query
            > @admin POST /token/$ns?description=x&pool=nowhere&token=default:$chosen
            < 201 {\n    "token": "$chosen"\n}
            > PUT /api/$ns/$q
            + X-Token: $chosen
            < 201 {"job_id":"$id:a","msg":"published"}
            > @admin POST /token/$ns?description=x&token=nowhere:$chosen
            < 400 {"error":"the pool was not exists"}
            # the pool counts as a part of the 20 characters
            > @admin POST /token/$ns?description=x&token=default:t-$q-000000000000000
            < 201 {\n    "token": "t-$q-000000000000000"\n}
            # a delete ignores the pool in the query, and uses the one before the token
            > @admin DELETE /token/$ns/$made?pool=nowhere
            < 204
            > @admin DELETE /token/$ns/default:$chosen
            < 204
            > @admin GET /token/$ns?pool=
            ~ 0s
            < 200 {\n    "tokens": {\n        "$token": "test",\n        "t-$q-000000000000000": "x"\n    }\n}
            "#,
        )
        .await;
}

#[tokio::test]
async fn a_token_with_more_colons_is_used_with_its_pool_before_it() {
    let mut session = session().await;
    session.set("chosen", "a:b:chosen-by-the-user");
    session
        .play(
            r#"
            > @admin POST /token/$ns?description=%3Cx%3E&token=$chosen
            < 201 {\n    "token": "$chosen"\n}
            > PUT /api/$ns/$q
            + X-Token: default:$chosen
            < 201 {"job_id":"$id:a","msg":"published"}
            > PUT /api/$ns/$q
            + X-Token: $chosen
            < 404 {"error":"pool not found"}
            "#,
        )
        .await;
}

#[tokio::test]
async fn version_and_pools_are_shown_with_and_without_a_slash() {
    let mut session = session().await;
    let mut http = RawHttp::connect(session.target.admin).await;
    http.request("GET", "/version", &[], b"").await;
    let answer = http.answer().await.unwrap().expect(200);
    let version = answer.json();
    let keys: Vec<&String> = version.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["build_commit", "build_date", "version"]);
    assert!(
        answer.text().starts_with("{\n    \"build_commit\": \""),
        "{answer}"
    );
    http.request("GET", "/pools", &[], b"").await;
    let answer = http.answer().await.unwrap().expect(200);
    let pools = answer.json();
    assert!(
        pools.as_array().unwrap().contains(&"default".into()),
        "{answer}"
    );
    session
        .play(
            r#"
            > @admin GET /pools/
            < 301
            = Location: /pools
            > @admin GET /pool
            ! plain text names its character set
            < 404 404 page not found
            = Content-Type: text/plain; charset=utf-8
            "#,
        )
        .await;
}

#[tokio::test]
async fn a_namespace_may_have_several_tokens() {
    play(
        r#"
        > @admin POST /token/$ns?description=x
        < 201 {\n    "token": "$token:one"\n}
        > @admin POST /token/$ns?description=x
        < 201 {\n    "token": "$token:two"\n}
        > PUT /api/$ns/$q
        + X-Token: $one
        | x
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q
        + X-Token: $two
        < 200 {"attributes":null,"data":"eA==","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}
