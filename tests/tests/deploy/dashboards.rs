//! The dashboards of `deploy/grafana`, with a real Prometheus that scrapes real daemons.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tidegate_local_program::{ProgramProcess, log_tail};
use tidegate_testkit::{
    Daemon, DaemonProgram, QueueClient, RedisOptions, Stack, eventually, free_port,
};

use crate::files::{path, read, replaced};
use crate::prometheus::{RULES, SCRAPES, rules};
use crate::tools::PROMETHEUS;

const DASHBOARDS: [&str; 2] = [
    "deploy/grafana/queues.json",
    "deploy/grafana/operations.json",
];
const LIMIT: Duration = Duration::from_secs(60);
/// Publishes of this namespace wait for a replica, which the Redis of the test does not have.
const DURABLE: &str = "durable";
const METRICS_CONFIG: &str = "[metrics]\nrefresh = \"0s\"";
const API_CONFIG: &str = "[durability]\ntimeout = \"100ms\"\n\
                          [durability.namespaces]\ndurable = \"replica:1\"";

struct PanelQuery {
    panel: String,
    expression: String,
}

/// Returns the queries of all panels, with the variables that Grafana replaces.
fn queries() -> Vec<PanelQuery> {
    let mut queries = Vec::new();
    for file in DASHBOARDS {
        let dashboard: Value = serde_json::from_str(&read(file)).unwrap();
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let mut known: Vec<String> = variables
            .iter()
            .map(|variable| variable["name"].as_str().unwrap().to_owned())
            .collect();
        known.push("__rate_interval".to_owned());
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let mut expression = target["expr"].as_str().unwrap().to_owned();
                for name in &known {
                    let value = match name.as_str() {
                        "__rate_interval" => "30s",
                        _ => ".*",
                    };
                    expression = expression.replace(&format!("${name}"), value);
                }
                assert!(!expression.contains('$'), "{file}: {expression}");
                queries.push(PanelQuery {
                    panel: format!("{file}: {}", panel["title"].as_str().unwrap()),
                    expression,
                });
            }
        }
    }
    queries
}

struct RunningPrometheus {
    _process: ProgramProcess,
    base: String,
    client: reqwest::Client,
}

impl RunningPrometheus {
    /// Starts it with the configuration of `deploy/compose.yaml`, on these daemons.
    fn start(stack: &Stack, relay: &Daemon, folder: &Path) -> Self {
        let addresses = |name: &str, daemons: [&Daemon; 2], port: &str| {
            let to = daemons.map(|daemon| daemon.admin().to_string()).join(", ");
            (
                format!("[{name}-1:{port}, {name}-2:{port}]"),
                format!("[{to}]"),
            )
        };
        let pairs = [
            addresses("api", [stack.api(0), stack.api(1)], "7778"),
            addresses("pump", [stack.pump(0), stack.pump(1)], "7779"),
            ("interval: 15s".to_owned(), "interval: 1s".to_owned()),
            (
                "/etc/prometheus/rules.yml".to_owned(),
                path(RULES).display().to_string(),
            ),
        ];
        let relays = format!(
            "  - job_name: tidegate-relayd\n    static_configs:\n      - targets: [\"{}\"]\n",
            relay.admin()
        );
        let file = folder.join("prometheus.yml");
        std::fs::write(&file, replaced(&read(SCRAPES), &pairs) + &relays).unwrap();
        let port = free_port().unwrap();
        let address = format!("127.0.0.1:{port}");
        let mut command = PROMETHEUS.obtain().command("usr/bin/prometheus");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"));
        let log = folder.join("prometheus.log");
        let mut process = ProgramProcess::start(&mut command, &log).unwrap();
        let connect = || std::net::TcpStream::connect(&address);
        let is_up = || connect().map(drop).map_err(|error| error.to_string());
        let started = process.wait_until(LIMIT, is_up);
        started.unwrap_or_else(|error| panic!("{error}: {}", log_tail(&log, 0)));
        Self {
            _process: process,
            base: format!("http://{address}/api/v1"),
            client: reqwest::Client::new(),
        }
    }

    async fn get(&self, route: &str, parameters: &[(&str, &str)]) -> Value {
        let url = format!("{}/{route}", self.base);
        let url = reqwest::Url::parse_with_params(&url, parameters).unwrap();
        let answer = self.client.get(url).send().await.unwrap();
        let answer: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(answer["status"], "success", "{parameters:?}: {answer}");
        answer["data"].clone()
    }

    /// Whether a query has a value that is a number.
    async fn has_value(&self, expression: &str) -> bool {
        let data = self.get("query", &[("query", expression)]).await;
        let result = data["result"].as_array().unwrap();
        result.iter().any(|series| series["value"][1] != "NaN")
    }
}

/// A relay of jobs to a webhook that does not answer.
async fn start_relay(queue: &QueueClient, api: &Daemon, folder: &Path) -> Daemon {
    let key = queue.try_new_api_key(api).await.unwrap();
    let config = format!(
        "[relay.orders]\n[relay.orders.source]\nkind = \"tidegate\"\nurl = \"{}\"\nnamespace = \"{}\"\nqueue = \"{}\"\n\
         api_key = \"{key}\"\n[relay.orders.sink]\nkind = \"webhook\"\nurl = \"http://127.0.0.1:{}\"\n\
         allow_http = true\nallow_networks = [\"127.0.0.0/8\"]\n",
        api.url(),
        queue.namespace(),
        queue.name(),
        free_port().unwrap(),
    );
    let file = folder.join("relayd.toml");
    std::fs::write(&file, config).unwrap();
    let arguments = ["--config".to_owned(), file.display().to_string()];
    Daemon::start(DaemonProgram::Relayd, "relayd", &arguments, folder).await
}

/// A little of everything: jobs that are delivered, wait, die, are rejected, or are not confirmed by a replica.
async fn load(queue: &QueueClient, durable: &QueueClient, limited: &QueueClient) {
    let publish = async |name: &str, delay_s| {
        queue
            .sibling(name)
            .publish("x")
            .delay_s(delay_s)
            .tries(1)
            .id()
            .await
    };
    publish("ready", 0).await;
    publish("delayed", 1000).await;
    publish("due", 1).await;
    publish("relayed", 0).await;
    publish("dead", 0).await;
    queue
        .sibling("dead")
        .consume()
        .ttr_s(0)
        .job()
        .await
        .unwrap();
    publish("leased", 0).await;
    queue
        .sibling("leased")
        .consume()
        .ttr_s(1000)
        .job()
        .await
        .unwrap();
    let id = publish("acked", 0).await;
    queue
        .sibling("acked")
        .consume()
        .ttr_s(1000)
        .job()
        .await
        .unwrap();
    queue.sibling("acked").ack(&id).await;
    assert_eq!(durable.publish("x").send().await.unwrap().status, 504);
    let mut rejected = limited.publish("x").send().await.unwrap().status;
    while rejected == 201 {
        rejected = limited.publish("x").send().await.unwrap().status;
    }
    assert_eq!(rejected, 429);
}

/// A consumer that waits, with requests that end before the limit of a client: the deployment may start slowly.
async fn wait_for_ever(queue: QueueClient) {
    while queue.consume().timeout_s(20).job().await.is_none() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_and_every_rule_has_values_and_faults_raise_alerts() {
    let folder = tempfile::tempdir().unwrap();
    let stack = Stack::builder()
        .apis(2)
        .pumps(2)
        .redis(RedisOptions::new().setting("maxmemory", "100mb"))
        .api_config(METRICS_CONFIG)
        .api_config(API_CONFIG)
        .pump_config(METRICS_CONFIG)
        .start()
        .await;
    let queue = stack.queue("ready").await;
    let durable = stack.queue_in(DURABLE, "q").await;
    let limited = stack.queue_in("limited", "q").await;
    limited.limit_token(stack.api(0), 1, 1, 600).await;
    let relay = start_relay(&queue.sibling("relayed"), stack.api(0), folder.path()).await;
    let waiting = tokio::spawn(wait_for_ever(queue.sibling("waiting")));
    let prometheus =
        tokio::task::block_in_place(|| RunningPrometheus::start(&stack, &relay, folder.path()));
    let recorded = rules().into_iter().filter_map(|rule| {
        let expression = rule["record"].as_str()?.to_owned();
        let panel = "recording rule".to_owned();
        Some(PanelQuery { panel, expression })
    });
    let wanted: Vec<PanelQuery> = queries().into_iter().chain(recorded).collect();
    assert!(wanted.len() > 40, "{}", wanted.len());
    eventually("every panel has a value", LIMIT, async || {
        load(&queue, &durable, &limited).await;
        let mut empty = Vec::new();
        for query in &wanted {
            if !prometheus.has_value(&query.expression).await {
                empty.push(format!("{}: {}", query.panel, query.expression));
            }
        }
        match empty.is_empty() {
            true => Ok(()),
            false => Err(empty.join("\n")),
        }
    })
    .await;
    for number in 0..2 {
        stack.pump(number).kill();
    }
    let expected = BTreeSet::from(["NoPump", "ProcessGone", "NotConfirmed", "JobsDie"]);
    eventually("the faults raise alerts", LIMIT, async || {
        load(&queue, &durable, &limited).await;
        let data = prometheus.get("alerts", &[]).await;
        let alerts = data["alerts"].as_array().unwrap().iter();
        let names = alerts.map(|alert| alert["labels"]["alertname"].as_str().unwrap());
        let names: BTreeSet<&str> = names
            .map(|name| name.strip_prefix("Tidegate").unwrap())
            .collect();
        if names.is_superset(&expected) {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    })
    .await;
    let groups = prometheus.get("rules", &[]).await["groups"].clone();
    let evaluated: Vec<&Value> = groups
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
        .collect();
    assert_eq!(evaluated.len(), rules().len());
    for rule in evaluated {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    waiting.abort();
}
