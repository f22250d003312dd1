//! All figures with their goals, in one table.

use std::fmt::Write;

use serde_json::Value;

/// A share of the bare scripts that bulk work over HTTP is to reach.
const SHARE_GOAL: f64 = 60.0;
/// What `bulk` and `ceiling` both measure.
const SHARED: [&str; 4] = ["publish", "consume", "ack", "publish + consume + ack"];

struct Row {
    scenario: String,
    name: String,
    value: f64,
    unit: String,
    goal: String,
}

/// The table, and below it what was wrong.
pub(crate) fn table(reports: &[Value]) -> String {
    let mut rows: Vec<Row> = reports.iter().flat_map(rows).collect();
    rows.extend(shares(reports));
    let width = rows
        .iter()
        .map(|row| row.name.chars().count())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    // Writing to a string does not fail.
    for row in &rows {
        let Row {
            scenario,
            name,
            value,
            unit,
            goal,
        } = row;
        let _ = writeln!(
            text,
            "{scenario:9} {name:width$} {value:>12.3} {unit:12} {goal}"
        );
    }
    for report in reports {
        let scenario = report["scenario"].as_str().unwrap_or_default();
        for problem in report["problems"].as_array().into_iter().flatten() {
            let _ = writeln!(
                text,
                "WRONG     {scenario}: {} (its figures do not count)",
                problem.as_str().unwrap_or_default()
            );
        }
    }
    text
}

/// What a cluster is to one Redis, figure by figure; nothing where only one was measured.
pub(crate) fn comparisons(scenario: &str, outcome: &Value) -> String {
    let compared = outcome["comparisons"].as_array().into_iter().flatten();
    let line = |one: &Value| {
        let number = |name: &str| one[name].as_f64().unwrap_or(f64::NAN);
        let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        format!(
            "{scenario}: {}: one Redis {:.1}, cluster {:.1} {}, ratio {:.2} ({:.2} to {:.2})\n",
            text("name"),
            number("a"),
            number("b"),
            text("unit"),
            number("ratio"),
            number("ratio_least"),
            number("ratio_most"),
        )
    };
    compared.map(line).collect()
}

fn rows(report: &Value) -> Vec<Row> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let figures = report["figures"].as_array().into_iter().flatten();
    let row = |figure: &Value| {
        let value = figure["value"].as_f64().unwrap_or(f64::NAN);
        Row {
            scenario: text(&report["scenario"]),
            name: text(&figure["name"]),
            value,
            unit: text(&figure["unit"]),
            goal: goal(&figure["goal"], value),
        }
    };
    figures.map(row).collect()
}

fn goal(goal: &Value, value: f64) -> String {
    let bound = |word: &str| goal.get(word).and_then(Value::as_f64);
    match (bound("at_most"), bound("at_least")) {
        (Some(most), _) => aimed("≤", most, value <= most),
        (_, Some(least)) => aimed("≥", least, value >= least),
        _ => String::new(),
    }
}

fn aimed(sign: &str, bound: f64, is_reached: bool) -> String {
    let word = if is_reached { "reached" } else { "MISSED" };
    format!("{sign} {bound} {word}")
}

/// What of the bare scripts is left with HTTP before them, where both were measured.
fn shares(reports: &[Value]) -> Vec<Row> {
    let value = |scenario: &str, name: &str| {
        let report = reports
            .iter()
            .find(|report| report["scenario"] == scenario)?;
        let mut figures = report["figures"].as_array()?.iter();
        figures.find(|figure| figure["name"] == name)?["value"].as_f64()
    };
    let share = |name: &&str| {
        let percent = value("bulk", name)? / value("ceiling", &format!("bulk {name}"))? * 100.0;
        Some(Row {
            scenario: "bulk".to_owned(),
            name: format!("{name}: share of the ceiling"),
            value: percent,
            unit: "%".to_owned(),
            goal: aimed("≥", SHARE_GOAL, percent >= SHARE_GOAL),
        })
    };
    SHARED.iter().filter_map(share).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn goals_shares_and_problems_are_shown() {
        let reports = [
            json!({"scenario": "bulk", "problems": ["2 jobs lost"],
                "figures": [{"name": "ack", "value": 50.0, "unit": "jobs/s", "goal": {"at_least": 60.0}}]}),
            json!({"scenario": "ceiling", "problems": [],
                "figures": [{"name": "bulk ack", "value": 80.0, "unit": "jobs/s", "goal": null}]}),
        ];
        let table = table(&reports);
        for said in [
            "≥ 60 MISSED",
            "share of the ceiling",
            "62.5",
            "≥ 60 reached",
            "WRONG     bulk: 2 jobs lost",
        ] {
            assert!(table.contains(said), "{said}: {table}");
        }
    }
}
