//! Bounds on the number of series, and the requests that can create one.

use std::collections::BTreeSet;

use tidegate_testkit::{QueueClient, Stack};

use crate::exposition::{Family, parse};

/// The values of a label of a metric.
fn values(families: &[Family], name: &str, label: &str) -> BTreeSet<String> {
    let family = families.iter().find(|family| family.name == name);
    let samples = family.into_iter().flat_map(|family| &family.samples);
    samples.map(|sample| sample.labels[label].clone()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// At most two queues have series of their own, and sizes are read for each scrape.
const TWO: &str = "[metrics]\nrefresh = \"0s\"\nqueues_max = 2";

async fn stack_with_two_series() -> Stack {
    let stack = Stack::builder().api_config(TWO).pump_config(TWO);
    let stack = stack.start().await;
    stack.pump(0).wait_for_buckets(256).await;
    stack
}

#[tokio::test]
async fn queues_beyond_the_limit_are_counted_together() {
    let stack = stack_with_two_series().await;
    let queue = stack.queue("a").await;
    for (name, jobs) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        for _ in 0..jobs {
            queue.sibling(name).publish("x").id().await;
        }
        queue.sibling(name).consume().job().await.unwrap();
    }
    let (api, pump) = (stack.api(0), stack.pump(0));
    let of_api = parse(&api.metrics().await);
    let of_pump = parse(&pump.metrics().await);
    // Events are counted by name for the queues that came first, jobs for the queues that hold the most.
    for (families, name, known) in [
        (
            &of_api,
            "infra_lmstfy_redis_publish_queue_jobs",
            ["_other", "a", "b"],
        ),
        (
            &of_api,
            "infra_lmstfy_redis_consume_queue_jobs",
            ["_other", "a", "b"],
        ),
        (
            &of_api,
            "infra_lmstfy_redis_job_elapsed_ms",
            ["_other", "a", "b"],
        ),
        (
            &of_pump,
            "infra_lmstfy_redis_queue_sizes",
            ["_other", "c", "d"],
        ),
        (&of_pump, "tidegate_queue_leased_jobs", ["_other", "c", "d"]),
    ] {
        assert_eq!(values(families, name, "queue"), names(&known), "{name}");
    }
    let others = "namespace=\"_other\",queue=\"_other\"";
    let published = "infra_lmstfy_redis_publish_queue_jobs";
    assert_eq!(api.metric_with_label(published, others).await, 7.0);
    assert_eq!(api.metric(published).await, 10.0);
    let ready = pump.metric_with_label("infra_lmstfy_redis_queue_sizes", others);
    assert_eq!(ready.await, 1.0);
    stack.finish().await;
}

/// On the lmstfy wire the reply to a job is published to a queue that is named by the id of the job.
#[tokio::test]
async fn queues_for_replies_take_the_place_of_no_others() {
    let stack = stack_with_two_series().await;
    let work = stack.queue("work").await;
    for _ in 0..3 {
        let id = work.publish("x").id().await;
        let reply = work.sibling(&id);
        reply.publish("y").id().await;
        reply.consume().job().await.unwrap();
    }
    work.sibling("new").publish("x").id().await;
    let published = "infra_lmstfy_redis_publish_queue_jobs";
    for (daemon, name) in [
        (stack.api(0), published),
        (stack.pump(0), "infra_lmstfy_redis_queue_sizes"),
    ] {
        let families = parse(&daemon.metrics().await);
        let known = names(&["_other", "new", "work"]);
        assert_eq!(values(&families, name, "queue"), known, "{name}");
    }
    let others = "namespace=\"_other\",queue=\"_other\"";
    let of_replies = stack.api(0).metric_with_label(published, others).await;
    assert_eq!(of_replies, 3.0);
    stack.finish().await;
}

#[tokio::test]
async fn namespaces_beyond_the_limit_are_counted_together() {
    let config = "[metrics]\nqueues_max = 1";
    let stack = Stack::builder().api_config(config).start().await;
    let first = stack.queue("q").await;
    let second = stack.queue("q").await;
    for queue in [&first, &second] {
        queue.publish("x").id().await;
    }
    let families = parse(&stack.api(0).metrics().await);
    let known = names(&["_other", first.namespace()]);
    for name in [
        "infra_lmstfy_http_http_codes",
        "infra_lmstfy_http_latency_milliseconds",
    ] {
        assert_eq!(values(&families, name, "namespace"), known, "{name}");
    }
    stack.finish().await;
}

#[tokio::test]
async fn unknown_names_make_no_series_and_tokens_are_not_shown() {
    let stack = Stack::builder().start().await;
    let queue = stack.queue("q").await;
    queue.publish("x").id().await;
    // Creates the series of acks first: below, an ack reaches Redis only if the bucket of the id is that of the queue.
    let acked = queue.publish("x").id().await;
    queue.ack(&acked).await;
    let api = stack.api(0);
    let mut lines = 0;
    for number in 0..30 {
        let namespace = format!("stranger-{number}");
        let guess = QueueClient::new(&api.url(), &namespace, "q", &format!("guess-{number}"));
        guess.publish("x").send().await.unwrap().expect(401);
        guess.consume().send().await.unwrap().expect(401);
        guess.size().await;
        let path = format!("/{namespace}");
        guess.raw("PATCH", &path).await.expect(404);
        // Requests with a valid token for unknown queues create no series either.
        let nothing = queue.sibling(&format!("nothing-{number}"));
        nothing.consume().send().await.unwrap().expect(404);
        nothing.ack("01M7YAG1QB00PG00001X143D2D").await;
        let text = api.metrics().await;
        for hidden in ["stranger", "guess", "nothing-", queue.token()] {
            assert!(!text.contains(hidden), "{hidden} is in\n{text}");
        }
        // All routes are known after the first round.
        if number == 0 {
            lines = text.lines().count();
        }
        assert_eq!(text.lines().count(), lines, "{text}");
    }
    stack.finish().await;
}
