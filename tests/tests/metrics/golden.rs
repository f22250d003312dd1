//! The list of all metrics, after every verb was used.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tidegate_testkit::{Daemon, NativeClient, QueueClient, RawHttp, Stack, eventually};

use crate::exposition::{Family, parse};
use crate::lint::problems;

const API: &str = include_str!("golden/api.txt");
const PUMPD: &str = include_str!("golden/pumpd.txt");

#[tokio::test]
async fn names_types_and_labels_match_the_golden_files() {
    let stack = Stack::builder()
        .pump_config("[metrics]\nrefresh = \"0s\"")
        .start()
        .await;
    let queue = stack.queue("q").await;
    do_everything(&stack, &queue).await;
    let waiting = tokio::spawn(queue.sibling("nothing").consume().timeout_s(60).send());
    stack.api(0).wait_for_waiting_consumers(1).await;
    let of_api = parse(&stack.api(0).metrics().await);
    let of_pump = parse(&stack.pump(0).metrics().await);
    waiting.abort();
    let differences = [
        compare("api", API, &of_api),
        compare("pumpd", PUMPD, &of_pump),
    ]
    .concat();
    assert!(
        differences.is_empty(),
        "+ is new, - is missing:\n{}",
        differences.join("\n")
    );
    let problems = [problems(&of_api), problems(&of_pump)].concat();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    stack.finish().await;
}

/// Every verb at least once, with success and without.
async fn do_everything(stack: &Stack, queue: &QueueClient) {
    let replaced = queue.publish("a").id().await;
    queue.republish(&replaced, "b").id().await;
    queue
        .publish_bulk(&["1".to_owned(), "2".to_owned()])
        .send()
        .await
        .unwrap();
    queue.peek().await.expect(200);
    let job = queue.consume().ttr_s(60).job().await.unwrap();
    queue.peek_job(&job.id).await.expect(200);
    queue.ack(&job.id).await;
    queue.peek_job(&job.id).await.expect(404);
    queue.sibling("destroyed").publish("x").id().await;
    queue.sibling("destroyed").destroy().await;
    queue.raw("GET", "/nowhere").await.expect(404);
    let dying = queue.sibling("dying");
    dying.publish("x").delay_s(1).id().await;
    let once = async || match dying.consume().ttr_s(0).timeout_s(5).send().await {
        Ok(answer) if answer.status == 200 => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("the delay is over", Duration::from_secs(20), once).await;
    let dead = async || match dying.dead_size().await {
        1 => Ok(()),
        other => Err(other),
    };
    eventually("the job is dead", Duration::from_secs(20), dead).await;
    dying.dead_letter().await;
    assert_eq!(dying.respawn(1, 60).await, 1);
    dying.purge_dead(1).await;
    reach_a_quota(stack.api(0)).await;
    reach_a_rate(stack.api(0), &queue.sibling("slow")).await;
    exceed_a_limit(stack.api(0), &queue.sibling("limited")).await;
}

async fn reach_a_quota(api: &Daemon) {
    api.set_quota("small", &json!({"jobs": 1})).await;
    let client = NativeClient::new(api, "small").await;
    client.publish("q", "", "1").await.expect(201);
    client.publish("q", "", "1").await.expect(409);
}

async fn reach_a_rate(api: &Daemon, queue: &QueueClient) {
    let rate = r#"{"rate":{"jobs":1,"per":"1h"}}"#;
    queue.patch_policy(api, rate).await;
    queue.publish("x").id().await;
    assert!(queue.consume().ttr_s(600).job().await.is_some());
    assert!(queue.consume().ttr_s(600).job().await.is_none());
}

async fn exceed_a_limit(api: &Daemon, queue: &QueueClient) {
    let mut http = RawHttp::connect(api.admin()).await;
    let path = format!("/token/{}/{}/limit", queue.namespace(), queue.token());
    let limit = br#"{"read":0,"write":1,"interval":3600}"#;
    http.request("PUT", &path, &[], limit).await;
    http.answer().await.unwrap().expect(200);
    let refused = async || match queue.publish("x").send().await.unwrap().status {
        429 => Ok(()),
        other => Err(other),
    };
    eventually("the limit holds", Duration::from_secs(20), refused).await;
}

/// The differences from the golden file, one line each.
fn compare(program: &str, golden: &str, families: &[Family]) -> Vec<String> {
    let expected: BTreeSet<String> = golden.lines().map(ToOwned::to_owned).collect();
    let found: BTreeSet<String> = families.iter().map(row).collect();
    let new = found
        .difference(&expected)
        .map(|row| format!("+ {program}: {row}"));
    let gone = expected
        .difference(&found)
        .map(|row| format!("- {program}: {row}"));
    new.chain(gone).collect()
}

fn row(family: &Family) -> String {
    let labels: Vec<&str> = family.label_names().into_iter().collect();
    let row = format!("{} {} {}", family.name, family.kind, labels.join(","));
    row.trim_end().to_owned()
}
