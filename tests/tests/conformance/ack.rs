//! `DELETE /api/:namespace/:queue/job/:job_id`

use crate::session::{play, session};

#[tokio::test]
async fn a_job_in_any_state_is_deleted() {
    play(
        r#"
        # delayed
        > PUT /api/$ns/$q?delay=600
        < 201 {"job_id":"$id:a","msg":"published"}
        > DELETE /api/$ns/$q/job/$a
        < 204
        > GET /api/$ns/$q/job/$a
        < 404 {"error":"job not found"}
        # ready
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:b","msg":"published"}
        > DELETE /api/$ns/$q/job/$b
        < 204
        > GET /api/$ns/$q
        < 404 {"msg":"no job available"}
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":0}
        # leased
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:c","msg":"published"}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$c","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > DELETE /api/$ns/$q/job/$c
        < 204
        > GET /api/$ns/$q/job/$c
        < 404 {"error":"job not found"}
        # dead
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:d","msg":"published"}
        > GET /api/$ns/$q?ttr=0
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$d","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > GET /api/$ns/$q/deadletter
        ~ 3s
        < 200 {"deadletter_head":"$d","deadletter_size":1,"namespace":"$ns","queue":"$q"}
        > DELETE /api/$ns/$q/job/$d
        < 204
        > GET /api/$ns/$q/deadletter
        ! a deleted job leaves the dead letter at once
        < 200 {"deadletter_head":"","deadletter_size":0,"namespace":"$ns","queue":"$q"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn deleting_an_unknown_id_succeeds() {
    let mut session = session().await;
    session.set("long", &"x".repeat(5000));
    let ids = [
        "x",
        "00000000000000000000000000",
        "100000000000000000000000000",
        "a.b",
        "a%20b",
        "%C3%BC",
        "%00",
        ",",
        "$long",
        "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "%25",
    ];
    for id in ids {
        session
            .play(&format!("> DELETE /api/$ns/$q/job/{id}\n< 204"))
            .await;
    }
    session
        .play(
            r#"
            > PUT /api/$ns/$q
            < 201 {"job_id":"$id:a","msg":"published"}
            > DELETE /api/$ns/$q/job/$a
            < 204
            > DELETE /api/$ns/$q/job/$a
            < 204
            "#,
        )
        .await;
    session.target.check().await;
}

#[tokio::test]
async fn a_job_of_another_queue_is_left_alone() {
    play(
        r#"
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:a","msg":"published"}
        > DELETE /api/$ns/other/job/$a
        < 204
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

/// The lease has expired, so the job may be delivered again, or was already. An ack of any consumer ends it.
#[tokio::test]
async fn a_late_ack_counts_and_cancels_the_redelivery() {
    play(
        r#"
        > PUT /api/$ns/$q?tries=2
        < 201 {"job_id":"$id:a","msg":"published"}
        > GET /api/$ns/$q?ttr=0
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":1,"ttl":$ttl:86400}
        > GET /api/$ns/$q/size
        ~ 3s
        < 200 {"namespace":"$ns","queue":"$q","size":1}
        > DELETE /api/$ns/$q/job/$a
        < 204
        > GET /api/$ns/$q
        < 404 {"msg":"no job available"}
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":0}
        "#,
    )
    .await;
}
