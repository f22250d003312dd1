//! The chart in `deploy/helm`.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::Value;
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

fn rendered(values: &str) -> String {
    try_helm(&["template", "tidegate"], values, &[])
        .unwrap_or_else(|error| panic!("{values}: {error}"))
}

fn objects(values: &str) -> Vec<Value> {
    let text = rendered(values);
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
        std::fs::write(&file, rendered(values)).unwrap();
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
        ("api.drainDelaySeconds=25", "must be longer than"),
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
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{setting}");
        assert!(said.contains(reason), "{setting}: {said}");
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
    }
    assert_eq!(kind("ServiceMonitor").count(), 3);
}
