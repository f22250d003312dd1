//! The rules of Prometheus, and how `deploy/compose.yaml` scrapes.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tidegate_local_program::command::run;

use crate::compose_file::{services, strings};
use crate::files::{path, read, replaced, yaml};
use crate::tools::{PROMETHEUS, TOOL_LIMIT};

pub(crate) const RULES: &str = "deploy/prometheus/rules.yml";
const CASES: &str = "deploy/prometheus/rules_test.yml";
pub(crate) const SCRAPES: &str = "deploy/compose/prometheus.yml";

fn promtool(arguments: &[&str], file: &Path) -> String {
    let mut command = PROMETHEUS.obtain().command("usr/bin/promtool");
    command.args(arguments).arg(file);
    run(&mut command, TOOL_LIMIT).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

pub(crate) fn rules() -> Vec<Value> {
    let file = yaml(RULES);
    let groups = file["groups"].as_array().unwrap().clone();
    let of_group = |group: Value| group["rules"].as_array().unwrap().clone();
    groups.into_iter().flat_map(of_group).collect()
}

#[test]
fn promtool_accepts_the_rules_and_their_cases_hold() {
    promtool(&["check", "rules"], &path(RULES));
    promtool(&["test", "rules"], &path(CASES));
}

#[test]
fn each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() {
    let cases = yaml(CASES);
    let cases = cases["tests"].as_array().unwrap();
    let checks = cases.iter().flat_map(|case| {
        let checks = case["alert_rule_test"].as_array();
        checks.into_iter().flatten()
    });
    let mut firing = BTreeSet::new();
    let mut silent = BTreeSet::new();
    let mut count = 0;
    for check in checks {
        let name = check["alertname"].as_str().unwrap().to_owned();
        match check["exp_alerts"].as_array().unwrap().is_empty() {
            true => silent.insert(name),
            false => firing.insert(name),
        };
        count += 1;
    }
    let alerts: BTreeSet<String> = rules()
        .iter()
        .filter_map(|rule| Some(rule["alert"].as_str()?.to_owned()))
        .collect();
    assert_eq!(firing, alerts);
    assert_eq!(silent, alerts);
    assert!(count >= 20, "{count}");
}

/// The table of alerts in docs/operating.md and the rules have the same expressions and times.
#[test]
fn the_rules_are_the_alerts_of_the_document() {
    let document = read("docs/operating.md");
    let section = document.split("\n## Alerts\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| {
        let (_, rest) = line.strip_prefix("| ")?.split_once(" | `")?;
        let (expression, rest) = rest.split_once("` |")?;
        let time = rest.split('|').next()?.trim();
        Some((
            expression.to_owned(),
            time.replace(" min", "m").replace(" s", "s"),
        ))
    });
    let alerts = rules().into_iter().filter(|rule| rule["alert"].is_string());
    let alerts = alerts.map(|rule| {
        let expression = rule["expr"].as_str().unwrap().to_owned();
        (expression, rule["for"].as_str().unwrap_or("").to_owned())
    });
    assert_eq!(
        alerts.collect::<BTreeSet<_>>(),
        rows.collect::<BTreeSet<_>>()
    );
}

#[test]
fn prometheus_scrapes_the_admin_port_of_each_daemon() {
    let services = services();
    let prometheus = &services["prometheus"];
    let mounts = prometheus.mounts();
    let to = |file: &str| {
        let mount = mounts.iter().find(|(from, _)| from == file);
        mount
            .unwrap_or_else(|| panic!("{file} is not mounted"))
            .1
            .clone()
    };
    let flag = format!("--config.file={}", to(SCRAPES));
    assert!(prometheus.command().contains(&flag), "{flag}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prometheus.yml");
    let pairs = [(to(RULES), path(RULES).display().to_string())];
    std::fs::write(&file, replaced(&read(SCRAPES), &pairs)).unwrap();
    promtool(&["check", "config"], &file);
    let scrapes = yaml(SCRAPES);
    let mut scraped = BTreeSet::new();
    for job in scrapes["scrape_configs"].as_array().unwrap() {
        for target in strings(&job["static_configs"][0]["targets"]) {
            let (name, port) = target.split_once(':').unwrap();
            let image = services[name].daemon().unwrap();
            assert_eq!(job["job_name"], image.program().name());
            assert_eq!(image.ports.last().unwrap(), port, "{target}");
            scraped.insert(name.to_owned());
        }
    }
    let daemons = services
        .values()
        .filter(|service| service.daemon().is_some());
    let daemons: BTreeSet<String> = daemons.map(|service| service.name.clone()).collect();
    assert_eq!(scraped, daemons);
}
