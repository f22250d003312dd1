//! Prints all figures with their goals in one table.

use std::fmt::Write;

use serde_json::Value;

/// Goal for bulk work over HTTP, in percent of the rate of the scripts without HTTP.
const SHARE_GOAL: f64 = 60.0;
/// Figures that both `bulk` and `ceiling` have.
const SHARED: [&str; 4] = ["publish", "consume", "ack", "publish + consume + ack"];

struct TableRow {
    scenario: String,
    name: String,
    /// The value with its unit.
    amount: String,
    goal: String,
}

/// Returns the table, and the problems below it.
pub(crate) fn table(reports: &[Value]) -> String {
    let mut rows: Vec<TableRow> = reports.iter().flat_map(rows).collect();
    rows.extend(http_shares(reports));
    let width = rows
        .iter()
        .map(|row| row.name.chars().count())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    for row in &rows {
        let TableRow {
            scenario,
            name,
            amount,
            goal,
        } = row;
        let _ = writeln!(text, "{scenario:13} {name:width$} {amount} {goal}");
    }
    text + &problems(reports)
}

/// The reasons why figures are invalid.
pub(crate) fn problems(reports: &[Value]) -> String {
    let mut text = String::new();
    for report in reports {
        let scenario = report["scenario"].as_str().unwrap_or_default();
        for problem in report["problems"].as_array().into_iter().flatten() {
            let _ = writeln!(
                text,
                "PROBLEM   {scenario}: {} (its figures do not count)",
                problem.as_str().unwrap_or_default()
            );
        }
    }
    text
}

/// Compares the figures of the two sides of a scenario. Empty if only one was measured.
pub(crate) fn comparisons(name: &str, [a, b]: [&str; 2], outcome: &Value) -> String {
    let compared = outcome["comparisons"].as_array().into_iter().flatten();
    let line = |one: &Value| {
        let number = |name: &str| one[name].as_f64().unwrap_or(f64::NAN);
        let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        format!(
            "{name}: {}: {a} {:.1}, {b} {:.1} {}, ratio {:.2} ({:.2} to {:.2})\n",
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

fn is_native(report: &Value) -> bool {
    report["parameters"]["wire"] == "native"
}

fn rows(report: &Value) -> Vec<TableRow> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let figures = report["figures"].as_array().into_iter().flatten();
    let suffix = if is_native(report) { "/v1" } else { "" };
    let row = |figure: &Value| {
        let value = figure["value"].as_f64().unwrap_or(f64::NAN);
        TableRow {
            scenario: text(&report["scenario"]) + suffix,
            name: text(&figure["name"]),
            amount: amount(value, &text(&figure["unit"])),
            goal: goal(&figure["goal"], value),
        }
    };
    figures.map(row).collect()
}

fn amount(value: f64, unit: &str) -> String {
    format!("{value:>12.3} {unit:12}")
}

fn goal(goal: &Value, value: f64) -> String {
    let bound = |word: &str| goal.get(word).and_then(Value::as_f64);
    match (bound("at_most"), bound("at_least")) {
        (Some(most), _) => goal_text("≤", most, value <= most),
        (_, Some(least)) => goal_text("≥", least, value >= least),
        _ => String::new(),
    }
}

fn goal_text(sign: &str, bound: f64, is_reached: bool) -> String {
    let word = if is_reached { "reached" } else { "MISSED" };
    format!("{sign} {bound} {word}")
}

/// Computes the rates over HTTP as a share of the rates of the scripts without HTTP, if both were measured.
fn http_shares(reports: &[Value]) -> Vec<TableRow> {
    let value = |scenario: &str, name: &str| {
        let is_wanted = |report: &&Value| report["scenario"] == scenario && !is_native(report);
        let report = reports.iter().find(is_wanted)?;
        let mut figures = report["figures"].as_array()?.iter();
        figures.find(|figure| figure["name"] == name)?["value"].as_f64()
    };
    let share = |name: &&str| {
        let percent = value("bulk", name)? / value("ceiling", &format!("bulk {name}"))? * 100.0;
        Some(TableRow {
            scenario: "bulk".to_owned(),
            name: format!("{name}: share of the ceiling"),
            amount: amount(percent, "%"),
            goal: goal_text("≥", SHARE_GOAL, percent >= SHARE_GOAL),
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
            json!({"scenario": "bulk", "problems": [], "parameters": {"wire": "native"},
                "figures": [{"name": "ack", "value": 70.0, "unit": "jobs/s", "goal": null}]}),
            json!({"scenario": "bulk", "problems": ["2 jobs lost"],
                "figures": [{"name": "ack", "value": 50.0, "unit": "jobs/s", "goal": {"at_least": 60.0}}]}),
            json!({"scenario": "ceiling", "problems": [],
                "figures": [{"name": "bulk ack", "value": 80.0, "unit": "jobs/s", "goal": null}]}),
        ];
        let table = table(&reports);
        for said in [
            "≥ 60 MISSED",
            "bulk/v1",
            "share of the ceiling",
            "62.5",
            "≥ 60 reached",
            "PROBLEM   bulk: 2 jobs lost",
        ] {
            assert!(table.contains(said), "{said}: {table}");
        }
    }
}
