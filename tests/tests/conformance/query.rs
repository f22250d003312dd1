//! Parsing of query strings, tested with publish and consume.

use crate::session::play;

#[tokio::test]
async fn the_first_of_repeated_parameters_counts() {
    play(
        r#"
        > PUT /api/$ns/$q?delay=x&delay=0
        < 400 {"error":"invalid delay"}
        > PUT /api/$ns/$q?delay=0&delay=x
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q?count=2&count=1
        < 200 [{"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}]
        > PUT /api/$ns/$q?delay=&delay=0
        < 400 {"error":"invalid delay"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn names_are_case_sensitive_and_unknown_ones_ignored() {
    play(
        r#"
        > PUT /api/$ns/$q?DELAY=x&Ttl=x&tries_=x&anything=%00&=x&
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q?TTR=x&Timeout=x&Count=x
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

#[tokio::test]
async fn names_and_values_are_percent_decoded() {
    play(
        r#"
        > PUT /api/$ns/$q?%64elay=x
        < 400 {"error":"invalid delay"}
        > PUT /api/$ns/$q?tr%69es=%32&ttl=%31%30
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":1,"ttl":$ttl:10}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_parameter_with_broken_percent_encoding_is_dropped() {
    play(
        r#"
        > PUT /api/$ns/$q?delay=%zz
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/$q?delay=1%
        < 201 {"job_id":"$id:b","msg":"published"}
        > PUT /api/$ns/$q?delay=1%2
        < 201 {"job_id":"$id:c","msg":"published"}
        > PUT /api/$ns/$q?%zz=1&tries=0
        < 400 {"error":"tries shouldn't be zero"}
        # a later valid one counts
        > PUT /api/$ns/$q?delay=%zz&delay=x
        < 400 {"error":"invalid delay"}
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":3}
        > GET /api/$ns/$q?count=%zz&timeout=%&ttr=%4
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_parameter_with_a_semicolon_is_dropped() {
    play(
        r#"
        > PUT /api/$ns/$q?delay=60;tries=0
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/$q?delay=60;&tries=2
        < 201 {"job_id":"$id:b","msg":"published"}
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":2}
        # an encoded one is part of the value
        > PUT /api/$ns/$q?delay=1%3B
        < 400 {"error":"invalid delay"}
        "#,
    )
    .await;
}
