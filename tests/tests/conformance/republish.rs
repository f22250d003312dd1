//! `PUT /api/:namespace/:queue/job/:job_id`

use crate::session::{play, session};
use crate::target::better;

#[tokio::test]
async fn the_new_job_replaces_the_old_one_under_a_new_id() {
    play(
        r#"
        > PUT /api/$ns/$q?tries=9&ttl=77
        | old
        < 201 {"job_id":"$id:old","msg":"published"}
        > PUT /api/$ns/$q/job/$old
        | new
        < 201 {"job_id":"$id:new","msg":"published"}
        > GET /api/$ns/$q/job/$old
        < 404 {"error":"job not found"}
        # nothing is inherited, and the new job is ready at once
        > GET /api/$ns/$q?timeout=3
        < 200 {"attributes":null,"data":"bmV3","elapsed_ms":$int,"job_id":"$new","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        > GET /api/$ns/$q
        < 404 {"msg":"no job available"}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_job_in_any_state_can_be_replaced() {
    let mut session = session().await;
    session
        .play(
            r#"
            # delayed
            > PUT /api/$ns/$q?delay=600
            < 201 {"job_id":"$id:a","msg":"published"}
            > PUT /api/$ns/$q/job/$a?delay=600
            < 201 {"job_id":"$id:b","msg":"published"}
            > GET /api/$ns/$q/job/$a
            < 404 {"error":"job not found"}
            # leased
            > PUT /api/$ns/$q
            < 201 {"job_id":"$id:c","msg":"published"}
            > GET /api/$ns/$q
            < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$c","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
            > PUT /api/$ns/$q/job/$c?delay=600
            < 201 {"job_id":"$id:d","msg":"published"}
            > GET /api/$ns/$q/job/$c
            < 404 {"error":"job not found"}
            # dead
            > PUT /api/$ns/$q
            < 201 {"job_id":"$id:e","msg":"published"}
            > GET /api/$ns/$q?ttr=0
            < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$e","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
            > GET /api/$ns/$q/deadletter
            ~ 3s
            < 200 {"deadletter_head":"$e","deadletter_size":1,"namespace":"$ns","queue":"$q"}
            > PUT /api/$ns/$q/job/$e
            < 201 {"job_id":"$id:f","msg":"published"}
            > GET /api/$ns/$q/deadletter
            ! a deleted job leaves the dead letter at once
            < 200 {"deadletter_head":"","deadletter_size":0,"namespace":"$ns","queue":"$q"}
            "#,
        )
        .await;
    session.target.check().await;
}

#[tokio::test]
async fn republishing_an_unknown_id_publishes_a_new_job() {
    let mut session = session().await;
    for id in [
        "x",
        "00000000000000000000000000",
        "a%20b",
        "%C3%BC",
        "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
    ] {
        let rows = format!(
            "> PUT /api/$ns/$q/job/{id}\n< 201 {{\"job_id\":\"$id:a\",\"msg\":\"published\"}}"
        );
        session.play(&rows).await;
    }
    session
        .play(
            r#"
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":5}
    "#,
        )
        .await;
}

#[tokio::test]
async fn a_job_of_another_queue_is_left_alone() {
    play(
        r#"
        > PUT /api/$ns/$q
        < 201 {"job_id":"$id:a","msg":"published"}
        > PUT /api/$ns/other/job/$a
        < 201 {"job_id":"$id:b","msg":"published"}
        > GET /api/$ns/$q/size
        < 200 {"namespace":"$ns","queue":"$q","size":1}
        > GET /api/$ns/$q
        < 200 {"attributes":null,"data":"","elapsed_ms":$int,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_refused_job_leaves_the_old_one_in_place() {
    let mut session = session().await;
    session
        .play("> PUT /api/$ns/$q\n | old\n < 201 {\"job_id\":\"$id:old\",\"msg\":\"published\"}")
        .await;
    let refusals = [
        ("delay=x", "invalid delay"),
        ("ttl=", "invalid ttl"),
        ("delay=2&ttl=1", "ttl is shorter than delay"),
        ("tries=-1", "invalid tries"),
        ("tries=0", "tries shouldn't be zero"),
    ];
    for (query, error) in refusals {
        let row = format!("> PUT /api/$ns/$q/job/$old?{query}\n< 400 {{\"error\":\"{error}\"}}");
        session.play(&row).await;
    }
    let attributes: String = (0..17)
        .map(|number| format!("+ Job-Attr-{number}: x\n"))
        .collect();
    session
        .play(&format!(
            "> PUT /api/$ns/$q/job/$old\n + Enable-Job-Version: YES\n {attributes} \
             < 400 {{\"error\":\"too many attributes, cannot exceed 16\"}}"
        ))
        .await;
    session
        .play(
            r#"
            > GET /api/$ns/$q
            ! everything is checked before the old job is deleted
            < 200 {"attributes":null,"data":"b2xk","elapsed_ms":$int,"job_id":"$old","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$ttl:86400}
            "#,
        )
        .await;
}

#[tokio::test]
async fn a_body_too_large_leaves_the_old_job_in_place() {
    let session = session().await;
    let queue = session.queue("q1");
    let old = queue.publish("old").id().await;
    let large = vec![b'x'; 1024 * 1024 + 1];
    queue
        .republish(&old, large)
        .send()
        .await
        .unwrap()
        .expect(413);
    if better("everything is checked before the old job is deleted") {
        assert_eq!(queue.consume().job().await.unwrap().id, old);
    }
}

#[tokio::test]
async fn attributes_and_delay_work_as_on_publish() {
    play(
        r#"
        # a delay of 2 s, so that a clock of whole seconds passes; the timing suite is stricter
        > PUT /api/$ns/$q/job/x?delay=2
        + Enable-Job-Version: yes
        + Job-Attr-Colour: blue
        < 201 {"job_id":"$id1:a","msg":"published"}
        > GET /api/$ns/$q
        < 404 {"msg":"no job available"}
        > GET /api/$ns/$q?timeout=5
        < 200 {"attributes":{"colour":"blue"},"data":"","elapsed_ms":$int:1000-4000,"job_id":"$a","msg":"new job","namespace":"$ns","queue":"$q","remain_tries":0,"ttl":$int:86396-86399}
        "#,
    )
    .await;
}
