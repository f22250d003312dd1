//! Attributes and versioned ids: `Enable-Job-Version` and `Job-Attr-…`

use crate::session::{play, session};

#[tokio::test]
async fn attributes_travel_with_the_job_under_a_versioned_id() {
    play(
        r#"
        > PUT /api/$ns/$q
        + Enable-Job-Version: YES
        + Job-Attr-Colour: blue
        + Job-Attr-A: 1
        | hello
        < 201 {"job_id":"$id1:a","msg":"published"}
        > GET /api/$ns/$q/peek
        < 200 {"attributes":{"a":"1","colour":"blue"},"data":"aGVsbG8=","elapsed_ms":$int:0-5000,"job_id":"$a","namespace":"$ns","queue":"$q","remain_tries":1,"ttl":$ttl:86400}
        > GET /api/$ns/$q/job/$a
        < 200 {"attributes":{"a":"1","colour":"blue"},"data":"aGVsbG8=","elapsed_ms":$int:0-5000,"job_id":"$a","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > GET /api/$ns/$q
        < 200 {"attributes":{"a":"1","colour":"blue"},"data":"aGVsbG8=","elapsed_ms":$int:0-5000,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > DELETE /api/$ns/$q/job/$a
        < 204
        > GET /api/$ns/$q/job/$a
        < 404 {"error":"job not found"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_versioned_id_stays_versioned_through_the_dead_letter_and_back() {
    play(
        r#"
        > PUT /api/$ns/$q
        + Enable-Job-Version: yes
        + Job-Attr-Colour: blue
        < 201 {"job_id":"$id1:a","msg":"published"}
        > GET /api/$ns/$q?ttr=0
        < 200 {"attributes":{"colour":"blue"},"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > GET /api/$ns/$q/deadletter
        ~ 3s
        < 200 {"deadletter_head":"$a","deadletter_size":1,"namespace":"$ns","queue":"$q"}
        > PUT /api/$ns/$q/deadletter
        < 200 {"count":1,"msg":"respawned"}
        > GET /api/$ns/$q
        < 200 {"attributes":{"colour":"blue"},"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > PUT /api/$ns/$q/job/$a
        < 201 {"job_id":"$id:b","msg":"published"}
        > GET /api/$ns/$q/job/$a
        < 404 {"error":"job not found"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn only_yes_in_any_case_enables_attributes() {
    let mut session = session().await;
    for value in ["YES", "yes", "YeS"] {
        session.set("value", value);
        session
            .play(
                r#"
                > PUT /api/$ns/$q
                + Enable-Job-Version: $value
                + Job-Attr-x: y
                < 201 {"job_id":"$id1:a","msg":"published"}
                > GET /api/$ns/$q
                < 200 {"attributes":{"x":"y"},"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
                "#,
            )
            .await;
    }
    for value in ["true", "1", "on", "", "y", "yes,yes", "no"] {
        session.set("value", value);
        session
            .play(
                r#"
                > PUT /api/$ns/$q
                + Enable-Job-Version: $value
                + Job-Attr-x: y
                < 201 {"job_id":"$id:a","msg":"published"}
                > GET /api/$ns/$q
                < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
                "#,
            )
            .await;
    }
}

#[tokio::test]
async fn a_versioned_id_needs_no_attributes() {
    play(
        r#"
        > PUT /api/$ns/$q
        + Enable-Job-Version: YES
        < 201 {"job_id":"$id1:a","msg":"published"}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

#[tokio::test]
async fn keys_are_lower_case_and_cut_at_32_bytes_values_at_128() {
    let mut session = session().await;
    session.set("key_32", &"k".repeat(32));
    session.set("value_128", &"v".repeat(128));
    let long_key = "K".repeat(40);
    session
        .play(&format!(
            r#"
            > PUT /api/$ns/$q
            + Enable-Job-Version: YES
            + Job-Attr-{long_key}: $value_128 too much
            + job-attr-x-Y: 1
            < 201 {{"job_id":"$id1:a","msg":"published"}}
            > GET /api/$ns/$q
            < 200 {{"attributes":{{"$key_32":"$value_128","x-y":"1"}},"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}}
            "#
        ))
        .await;
}

#[tokio::test]
async fn the_first_of_repeated_keys_counts_and_empty_values_are_skipped() {
    play(
        r#"
        > PUT /api/$ns/$q
        + Enable-Job-Version: YES
        + Job-Attr-x: first
        + Job-Attr-X: second
        + Job-Attr-empty:
        + Job-Attr-: nameless
        + Job-Attribute: no
        < 201 {"job_id":"$id1:a","msg":"published"}
        > GET /api/$ns/$q
        < 200 {"attributes":{"":"nameless","x":"first"},"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

/// JSON is escaped so that it is safe inside of HTML.
#[tokio::test]
async fn values_are_escaped_in_json() {
    play(
        r#"
        > PUT /api/$ns/$q
        + Enable-Job-Version: YES
        + Job-Attr-x: <a href="b">&'\é</a>
        < 201 {"job_id":"$id1:a","msg":"published"}
        > GET /api/$ns/$q
        < 200 {"attributes":{"x":"\u003ca href=\"b\"\u003e\u0026'\\é\u003c/a\u003e"},"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_job_has_at_most_16_attributes() {
    let mut session = session().await;
    let headers = |count: usize| -> String {
        (0..count)
            .map(|number| format!("+ Job-Attr-{number}: x\n"))
            .collect()
    };
    let on = "+ Enable-Job-Version: YES\n";
    for (suffix, body) in [("", "| x"), ("/bulk", "| [1]"), ("/job/x", "| x")] {
        let published = if suffix == "/bulk" {
            r#"{"job_ids":["$id1:a"],"msg":"published"}"#
        } else {
            r#"{"job_id":"$id1:a","msg":"published"}"#
        };
        let rows = format!(
            "> PUT /api/$ns/$q{suffix}\n {on} {sixteen} + Job-Attr-empty:\n {body}\n < 201 {published}
             > PUT /api/$ns/$q{suffix}\n {on} {seventeen} {body}\n \
             < 400 {{\"error\":\"too many attributes, cannot exceed 16\"}}
             > PUT /api/$ns/$q{suffix}\n {seventeen} {body}\n < 201 {plain}",
            sixteen = headers(16),
            seventeen = headers(17),
            plain = published.replace("$id1:", "$id:"),
        );
        session.play(&rows).await;
    }
    session.target.check().await;
}

#[tokio::test]
async fn all_jobs_of_a_bulk_get_the_attributes() {
    play(
        r#"
        > PUT /api/$ns/$q/bulk
        + Enable-Job-Version: YES
        + Job-Attr-Colour: blue
        | [1,2]
        < 201 {"job_ids":["$id1:a","$id1:b"],"msg":"published"}
        > GET /api/$ns/$q?count=2
        < 200 [{"attributes":{"colour":"blue"},"data":"MQ==","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400},{"attributes":{"colour":"blue"},"data":"Mg==","elapsed_ms":$int,"job_id":"$b","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}]
        # the body is checked before the number of attributes
        > PUT /api/$ns/$q/bulk
        + Enable-Job-Version: YES
        + Job-Attr-1: x
        + Job-Attr-2: x
        + Job-Attr-3: x
        + Job-Attr-4: x
        + Job-Attr-5: x
        + Job-Attr-6: x
        + Job-Attr-7: x
        + Job-Attr-8: x
        + Job-Attr-9: x
        + Job-Attr-10: x
        + Job-Attr-11: x
        + Job-Attr-12: x
        + Job-Attr-13: x
        + Job-Attr-14: x
        + Job-Attr-15: x
        + Job-Attr-16: x
        + Job-Attr-17: x
        | []
        < 400 {"error":"no jobs"}
        "#,
    )
    .await;
}
