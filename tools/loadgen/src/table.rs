//! Prints a report as a table.

use std::fmt::Write;

use crate::compare::{Comparison, LoadgenResults};
use crate::report::{Figure, Goal, ScenarioReport};

/// Returns the tables of all reports, and of the comparison.
#[must_use]
pub fn table(outcome: &LoadgenResults) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    for report in &outcome.reports {
        let _ = write!(text, "{}", report_table(report));
    }
    if !outcome.comparisons.is_empty() {
        let _ = write!(text, "{}", comparison_table(&outcome.comparisons));
    }
    text
}

fn report_table(report: &ScenarioReport) -> String {
    let mut text = format!(
        "\n{} at {} ({})\n",
        report.scenario, report.server, report.load
    );
    let parameters = report
        .parameters
        .iter()
        .map(|(name, value)| format!("{name} {value}"));
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        text,
        "  {parameters}; load average before {:.1}",
        report.load_average
    );
    let width = report
        .figures
        .iter()
        .map(|figure| figure.name.chars().count())
        .max();
    let width = width.unwrap_or_default();
    for figure in &report.figures {
        let Figure {
            name, value, unit, ..
        } = figure;
        let _ = writeln!(
            text,
            "  {name:width$}  {:>10} {unit:12} {}",
            number(*value),
            goal_text(figure)
        );
    }
    for remark in &report.remarks {
        let _ = writeln!(text, "  {remark}");
    }
    for problem in &report.problems {
        let _ = writeln!(text, "  PROBLEM: {problem}");
    }
    if !report.is_valid() {
        text.push_str("  these figures do not count\n");
    }
    text
}

fn goal_text(figure: &Figure) -> String {
    let Some(goal) = figure.goal else {
        return String::new();
    };
    let (sign, bound) = match goal {
        Goal::AtMost(most) => ("≤", most),
        Goal::AtLeast(least) => ("≥", least),
    };
    let word = match goal.is_reached(figure.value) {
        true => "reached",
        false => "missed",
    };
    format!("goal {sign} {}: {word}", number(bound))
}

fn comparison_table(comparisons: &[Comparison]) -> String {
    let mut text = "\nB / A over the rounds: median (min to max)\n".to_owned();
    let width = comparisons.iter().map(|it| it.name.chars().count()).max();
    let width = width.unwrap_or_default();
    for it in comparisons {
        let _ = writeln!(
            text,
            "  {:width$}  A {:>10}  B {:>10} {:12} {:.3} ({:.3} to {:.3})",
            it.name,
            number(it.a),
            number(it.b),
            it.unit,
            it.ratio,
            it.ratio_least,
            it.ratio_most
        );
    }
    text
}

/// Formats a number with about three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        let shown = [0.0, 0.0123, 1.234, 12.34, 123.4, 12345.6].map(number);
        assert_eq!(shown, ["0", "0.012", "1.23", "12.3", "123", "12346"]);
    }

    #[test]
    fn a_goal_is_shown_with_its_outcome() {
        let figure = |value, goal| Figure {
            name: "early".to_owned(),
            value,
            unit: "jobs".to_owned(),
            goal: Some(goal),
        };
        assert_eq!(
            goal_text(&figure(0.0, Goal::AtMost(0.0))),
            "goal ≤ 0: reached"
        );
        assert_eq!(
            goal_text(&figure(9.0, Goal::AtLeast(10.0))),
            "goal ≥ 10: missed"
        );
    }
}
