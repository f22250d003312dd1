//! The chart in `deploy/helm`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Value, json};
use tidegate_local_program::command::run;
use tidegate_testkit::DaemonProgram;

use crate::compose_file::strings;
use crate::container::image;
use crate::files::{path, read, yaml};
use crate::kubernetes_tools::{KUBERNETES, helm, kubeconform, schemas};
use crate::prometheus::RULES;
use crate::settings::{duration, in_effect, text};
use crate::tools::TOOL_LIMIT;

const CHART: &str = "deploy/helm/tidegate";
const VALUES: [&str; 5] = ["url", "sentinel", "cluster", "relay", "monitored"];
/// Objects of the operator of Prometheus, which Kubernetes has no schema of.
const OPERATOR: &str = "ServiceMonitor,PrometheusRule";

fn values_file(name: &str) -> String {
    path(CHART)
        .join(format!("ci/{name}-values.yaml"))
        .display()
        .to_string()
}

/// Runs Helm with values.
fn try_helm(action: &[&str], values: &str, settings: &[&str]) -> Result<String, String> {
    let mut command = Command::new(helm());
    command
        .args(action)
        .arg(path(CHART))
        .args(["--kube-version", KUBERNETES]);
    command.args(["--values", &values_file(values)]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    run(&mut command, TOOL_LIMIT)
}

fn rendered(values: &str, settings: &[&str]) -> String {
    try_helm(&["template", "tidegate"], values, settings)
        .unwrap_or_else(|error| panic!("{values} {settings:?}: {error}"))
}

fn objects(values: &str) -> Vec<Value> {
    objects_with(values, &[])
}

fn objects_with(values: &str, settings: &[&str]) -> Vec<Value> {
    let text = rendered(values, settings);
    let documents = serde_norway::Deserializer::from_str(&text);
    let objects = documents.map(|document| Value::deserialize(document).unwrap());
    objects.filter(|object| !object.is_null()).collect()
}

fn deployments(values: &str) -> BTreeMap<String, Value> {
    let objects = objects(values).into_iter();
    let deployments = objects.filter(|object| object["kind"] == "Deployment");
    let named = deployments.map(|object| {
        let container = &object["spec"]["template"]["spec"]["containers"][0];
        (
            container["name"].as_str().unwrap().to_owned(),
            object.clone(),
        )
    });
    named.collect()
}

#[test]
fn kubernetes_accepts_all_objects() {
    let folder = tempfile::tempdir().unwrap();
    for values in VALUES {
        try_helm(&["lint", "--strict"], values, &[]).unwrap();
        let file = folder.path().join(format!("{values}.yaml"));
        std::fs::write(&file, rendered(values, &[])).unwrap();
        let mut check = Command::new(kubeconform());
        let location = schemas().join("{{.ResourceKind}}{{.KindSuffix}}.json");
        check.args(["-strict", "-skip", OPERATOR, "-schema-location"]);
        run(check.arg(location).arg(file), TOOL_LIMIT)
            .unwrap_or_else(|error| panic!("{values}: {error}"));
    }
}

/// What a pod of the chart gives its daemon.
fn environment(container: &Value, daemon: &str) -> Vec<(String, String)> {
    let own = container["env"].as_array().unwrap().iter().map(|variable| {
        let secret = &variable["valueFrom"]["secretKeyRef"]["key"];
        let value = match secret.as_str() {
            Some("url") => "redis://redis.example.com:6379".to_owned(),
            Some(key) => format!("the-{key}"),
            None => variable["value"].as_str().unwrap().to_owned(),
        };
        (variable["name"].as_str().unwrap().to_owned(), value)
    });
    image(daemon).environment.into_iter().chain(own).collect()
}

#[tokio::test]
async fn the_daemons_accept_the_settings_of_each_pod_and_listen_on_its_ports() {
    let folder = tempfile::tempdir().unwrap();
    for values in VALUES {
        let config = folder.path().join("relayd.toml").display().to_string();
        let relays = yaml(&format!("{CHART}/ci/{values}-values.yaml"));
        let relays = relays["relayd"]["config"].as_str().unwrap_or("").to_owned();
        std::fs::write(&config, relays).unwrap();
        for (name, deployment) in deployments(values) {
            let pod = &deployment["spec"]["template"]["spec"];
            let container = &pod["containers"][0];
            let image = image(&name);
            let mut variables = environment(container, &name);
            let names: BTreeSet<&String> = variables.iter().map(|(name, _)| name).collect();
            assert_eq!(names.len(), variables.len(), "{name}: {variables:?}");
            if image.program() == DaemonProgram::Relayd {
                let key = "TIDEGATE_RELAY__ORDERS__SOURCE__API_KEY".to_owned();
                variables
                    .extend((values == "relay").then(|| (key, "tg_DEMOKEY00000_X".to_owned())));
            }
            let arguments: Vec<String> = strings(&container["args"])
                .into_iter()
                .map(|one| one.replace("/etc/tidegate/relayd.toml", &config))
                .collect();
            let settings = in_effect(image.program(), &arguments, &variables).await;
            let ports = container["ports"].as_array().unwrap().iter();
            let ports: Vec<String> = ports
                .map(|port| port["containerPort"].to_string())
                .collect();
            assert_eq!(
                ports,
                image.ports.iter().cloned().collect::<Vec<_>>(),
                "{name}"
            );
            let stop = match image.program() {
                DaemonProgram::Api => {
                    duration(&settings, "drain_delay") + duration(&settings, "drain_timeout")
                }
                DaemonProgram::Pumpd => Duration::from_secs(10),
                DaemonProgram::Relayd => duration(&settings, "stop_grace") + Duration::from_secs(1),
            };
            let grace_s = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
            assert!(
                Duration::from_secs(grace_s) > stop,
                "{values} {name}: {stop:?}"
            );
            expect_mounted_volumes(pod);
            if image.program() != DaemonProgram::Relayd {
                let startup = &container["startupProbe"];
                let allowed_s = startup["periodSeconds"].as_u64().unwrap()
                    * startup["failureThreshold"].as_u64().unwrap();
                let patience = duration(&settings, "connect_patience");
                assert!(Duration::from_secs(allowed_s) > patience, "{name}");
            }
            assert!(text(&settings, "admin_listen").starts_with("0.0.0.0:"));
        }
    }
}

#[test]
fn values_that_cannot_work_are_rejected_with_the_reason() {
    for (setting, reason) in [
        ("api.drainDelaySeconds=25", "so at least 39"),
        ("api.terminationGracePeriodSeconds=23", "so at least 24"),
        (
            "api.settings.TIDEGATE_DRAIN_TIMEOUT=60s",
            "TIDEGATE_DRAIN_TIMEOUT: the chart sets",
        ),
        (
            "pumpd.settings.TIDEGATE_POOL__DEFAULT__URL=redis://a",
            "pumpd.settings.TIDEGATE_POOL__DEFAULT__URL",
        ),
        ("redis.mode=sentinel", "sentinels"),
        ("redis.mode=other", "redis.mode"),
        ("pumpd.replicas=0", "pumpd.replicas"),
        ("apis.replicas=2", "apis"),
        ("pumpd.settings.LEASE=5s", "LEASE"),
    ] {
        let mut command = Command::new(helm());
        command.args(["template", "tidegate"]).arg(path(CHART));
        command.args(["--kube-version", KUBERNETES, "--set", setting]);
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{setting}");
        assert!(message.contains(reason), "{setting}: {message}");
    }
}

#[test]
fn the_chart_has_the_rules_and_the_names_of_the_jobs() {
    assert_eq!(read(&format!("{CHART}/files/rules.yml")), read(RULES));
    let objects = objects("monitored");
    let kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let rule = kind("PrometheusRule").next().unwrap();
    assert_eq!(rule["spec"], yaml(RULES));
    for monitor in kind("ServiceMonitor") {
        let selected = &monitor["spec"]["selector"]["matchLabels"];
        let selected = selected.as_object().unwrap();
        let matches = |object: &&Value| {
            let labels = &object["metadata"]["labels"];
            selected.iter().all(|(name, value)| labels[name] == *value)
        };
        let services: Vec<&Value> = kind("Service").filter(matches).collect();
        assert_eq!(services.len(), 1, "{monitor}");
        let label = monitor["spec"]["jobLabel"].as_str().unwrap();
        let job = services[0]["metadata"]["labels"][label].as_str().unwrap();
        let programs = [
            DaemonProgram::Api,
            DaemonProgram::Pumpd,
            DaemonProgram::Relayd,
        ];
        assert!(
            programs.iter().any(|program| program.name() == job),
            "{job}"
        );
        // Otherwise the operator replaces the namespaces of queues by that of the pod.
        let endpoints = monitor["spec"]["endpoints"].as_array().unwrap();
        assert!(endpoints.iter().all(|one| one["honorLabels"] == true));
    }
    assert_eq!(kind("ServiceMonitor").count(), 3);
}

fn expect_mounted_volumes(pod: &Value) {
    let names = |list: &Value| -> BTreeSet<String> {
        let entries = list.as_array().into_iter().flatten();
        let names = entries.map(|entry| entry["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    let mounted = names(&pod["containers"][0]["volumeMounts"]);
    assert_eq!(mounted, names(&pod["volumes"]), "{pod}");
}

/// The labels of the pods of a daemon.
fn labels_of_pods(objects: &[Value], daemon: &str) -> Value {
    let mut all = objects
        .iter()
        .filter(|object| object["kind"] == "Deployment");
    let one = all.find(|one| one["metadata"]["name"] == format!("tidegate-{daemon}"));
    one.unwrap()["spec"]["template"]["metadata"]["labels"].clone()
}

/// Whether a rule of a policy of the API admits pods with these labels at a port.
fn admits(objects: &[Value], port: &str, labels: &Value) -> bool {
    let is_policy = |object: &&Value| {
        object["kind"] == "NetworkPolicy" && object["metadata"]["name"] == "tidegate-api"
    };
    let policy = objects.iter().find(is_policy).unwrap();
    let rules = policy["spec"]["ingress"].as_array().unwrap().iter();
    let mut rules = rules.filter(|rule| rule["ports"][0]["port"] == port);
    rules.any(|rule| {
        let Some(sources) = rule["from"].as_array() else {
            return true;
        };
        sources.iter().any(|source| {
            let wanted = source["podSelector"]["matchLabels"].as_object();
            wanted.is_some_and(|wanted| wanted.iter().all(|(name, value)| labels[name] == *value))
        })
    })
}

#[test]
fn relays_reach_both_ports_of_the_api_and_other_pods_only_what_is_allowed() {
    let clients = "networkPolicy.clients[0].podSelector.matchLabels.app=shop";
    for values in ["relay", "monitored"] {
        let objects = objects_with(values, &[clients]);
        let relays = labels_of_pods(&objects, "relayd");
        let pumps = labels_of_pods(&objects, "pumpd");
        for port in ["http", "admin"] {
            assert!(admits(&objects, port, &relays), "{values} {port}");
            assert!(!admits(&objects, port, &pumps), "{values} {port}");
        }
        assert!(admits(&objects, "http", &json!({"app": "shop"})));
        let mut services = objects.iter().filter(|object| object["kind"] == "Service");
        let admin = services.find(|one| one["metadata"]["name"] == "tidegate-api-admin");
        assert_eq!(admin.unwrap()["spec"]["ports"][0]["port"], 7778);
    }
}

#[test]
fn a_node_can_be_drained_while_no_pod_is_ready() {
    let objects = objects("relay");
    let budgets = objects
        .iter()
        .filter(|object| object["kind"] == "PodDisruptionBudget");
    let budgets: Vec<&Value> = budgets.collect();
    assert_eq!(budgets.len(), 3);
    for budget in budgets {
        assert_eq!(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow");
    }
}

#[test]
fn each_daemon_takes_settings_from_a_secret_and_files() {
    let mut settings = Vec::new();
    for daemon in ["api", "pumpd", "relayd"] {
        settings.extend([
            format!("{daemon}.settings.OTEL_SERVICE_NAME=orders"),
            format!("{daemon}.settingsSecret=secrets-of-{daemon}"),
            format!("{daemon}.volumes[0].name=ca"),
            format!("{daemon}.volumes[0].secret.secretName=ca"),
            format!("{daemon}.volumeMounts[0].name=ca"),
            format!("{daemon}.volumeMounts[0].mountPath=/etc/ca"),
        ]);
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let objects = objects_with("relay", &settings);
    let deployments = objects
        .iter()
        .filter(|object| object["kind"] == "Deployment");
    let mut found = 0;
    for deployment in deployments {
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let daemon = container["name"].as_str().unwrap();
        let secret = &container["envFrom"][0]["secretRef"]["name"];
        assert_eq!(*secret, format!("secrets-of-{daemon}"));
        let variables = container["env"].as_array().unwrap().iter();
        let mut named = variables.filter(|one| one["name"] == "OTEL_SERVICE_NAME");
        assert_eq!(named.next().unwrap()["value"], "orders");
        let mut mounts = container["volumeMounts"].as_array().unwrap().iter();
        assert!(mounts.any(|mount| mount["mountPath"] == "/etc/ca"));
        expect_mounted_volumes(pod);
        found += 1;
    }
    assert_eq!(found, 3);
}
