//! Plot of lateness over time, with the faults in the background.

use std::path::Path;

use plotters::prelude::*;

use super::run_report::RunReport;
use crate::history::UnixMicros;

const SIZE: (u32, u32) = (1200, 520);
const CAPTION: (&str, u32) = ("sans-serif", 16);
const LABEL: (&str, u32) = ("sans-serif", 12);
const LEAST_MS: f64 = 0.1;
/// Number of heights for the labels of successive faults.
const LABEL_ROWS: usize = 4;

pub(super) fn draw(report: &RunReport, file: &Path) -> Result<(), String> {
    try_draw(report, file).map_err(|error| format!("{}: {error}", file.display()))
}

fn try_draw(report: &RunReport, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let second = |at: UnixMicros| at.saturating_sub(report.history.began) as f64 / 1_000_000.0;
    let end = second(report.history.ended).max(1.0);
    let worst = report
        .latest_delivery()
        .map_or(0.0, |it| it.late as f64 / 1000.0);
    let top = worst.max(1000.0) * 10.0;
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (seed, deployment) = (
        report.plan.seed,
        report.plan.deployment.name_with(report.plan.is_replicated),
    );
    let caption = format!(
        "seed {seed}, {deployment}: lateness of each delivery; red: fault, pale red: lateness excused, crosses: findings"
    );
    let mut chart = ChartBuilder::on(&area)
        .caption(caption, CAPTION)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..end, (LEAST_MS..top).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("s since the start")
        .y_desc("ms late")
        .draw()?;
    for (number, episode) in report.history.episodes.iter().enumerate() {
        let (from, to) = (second(episode.span.from), second(episode.span.to));
        let excused = second(episode.excuses_until);
        let shade = |from, to, weight| {
            Rectangle::new([(from, LEAST_MS), (to, top)], RED.mix(weight).filled())
        };
        chart.draw_series([
            shade(from, to, 0.15),
            shade(to.min(excused), excused.max(to), 0.05),
        ])?;
        let row = top / 1.8_f64.powi((number % LABEL_ROWS) as i32 + 1);
        let label = Text::new(episode.class.name(), (from, row), LABEL);
        chart.draw_series([label])?;
    }
    chart.draw_series(report.verdict.lateness.iter().map(|lateness| {
        let late_ms = (lateness.late as f64 / 1000.0).max(LEAST_MS);
        Circle::new(
            (second(lateness.waited.from), late_ms),
            2,
            BLUE.mix(0.5).filled(),
        )
    }))?;
    let findings = report.verdict.findings.iter();
    chart.draw_series(
        findings.map(|it| Cross::new((second(it.at), LEAST_MS * 2.0), 6, RED.stroke_width(2))),
    )?;
    area.present()?;
    Ok(())
}
