//! The routes of the admin port that hand out tokens.

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
        # other processes may remember it for some seconds
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
async fn a_token_that_cannot_be_made_is_refused_with_the_reason() {
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
async fn what_the_admin_port_does_not_know_is_not_found() {
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
