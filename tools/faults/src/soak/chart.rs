//! The picture of a soak: memory, lateness, files and connections, throughput, one below the other.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::deployment::PROCESSES;
use super::results::SoakReport;
use super::sample::{ProcessSample, SoakSample};

const SIZE: (u32, u32) = (1000, 1240);
const CAPTION: (&str, u32) = ("sans-serif", 16);
const LABEL: (&str, u32) = ("sans-serif", 12);
/// The width with a part for the names of the curves.
const WITH_NAMES: f64 = 1.25;
const MIB: f64 = 1_048_576.0;

type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawError = Box<dyn std::error::Error>;

/// A curve of one panel.
struct SoakCurve {
    name: String,
    points: Vec<(f64, f64)>,
}

pub(super) fn draw(report: &SoakReport, file: &Path) -> Result<(), String> {
    try_draw(report, file).map_err(|error| format!("{}: {error}", file.display()))
}

fn try_draw(report: &SoakReport, file: &Path) -> Result<(), DrawError> {
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let panels = area.split_evenly((4, 1));
    let mut memory = processes(report, |used| used.resident_bytes as f64 / MIB);
    memory.push(curve(report, "redis: used_memory", |it| {
        Some(it.redis_used_bytes as f64 / MIB)
    }));
    draw_panel(
        &panels[0],
        "resident memory, MiB; grey: restarts",
        report,
        &memory,
    )?;
    let lateness = [
        curve(report, "p50", |it| Some(it.lateness_p50_ms)),
        curve(report, "p99", |it| Some(it.lateness_p99_ms)),
    ];
    draw_panel(
        &panels[1],
        "lateness of delayed jobs, ms",
        report,
        &lateness,
    )?;
    let mut files = processes(report, |used| used.open_files as f64);
    files.push(curve(report, "connections of clients", |it| {
        Some(it.http_connections as f64)
    }));
    files.push(curve(report, "connections of Redis", |it| {
        Some(it.redis_clients as f64)
    }));
    draw_panel(&panels[2], "open files and connections", report, &files)?;
    let rates = [
        curve(report, "published", |it| Some(it.published_per_s)),
        curve(report, "ended", |it| Some(it.ended_per_s)),
        curve(report, "pending / 100", |it| {
            Some(it.pending as f64 / 100.0)
        }),
    ];
    draw_panel(&panels[3], "jobs per second", report, &rates)?;
    area.present()?;
    Ok(())
}

/// A curve for each process but this program.
fn processes(report: &SoakReport, value: impl Fn(&ProcessSample) -> f64) -> Vec<SoakCurve> {
    let all = PROCESSES.iter().enumerate();
    let all = all.filter(|(_, name)| **name != "driver");
    all.map(|(at, name)| curve(report, name, |it| it.processes[at].as_ref().map(&value)))
        .collect()
}

fn curve(report: &SoakReport, name: &str, value: impl Fn(&SoakSample) -> Option<f64>) -> SoakCurve {
    let samples = report.samples.iter();
    let points = samples.filter_map(|sample| Some((sample.at_s / 60.0, value(sample)?)));
    SoakCurve {
        name: name.to_owned(),
        points: points.collect(),
    }
}

fn draw_panel(
    panel: &Panel<'_>,
    caption: &str,
    report: &SoakReport,
    curves: &[SoakCurve],
) -> Result<(), DrawError> {
    let width = report.times.length.as_secs_f64() / 60.0;
    let values = curves.iter().flat_map(|curve| &curve.points);
    let top = values
        .map(|(_, value)| *value)
        .fold(f64::MIN_POSITIVE, f64::max)
        * 1.1;
    let mut chart = ChartBuilder::on(panel)
        .caption(caption, CAPTION)
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..width * WITH_NAMES, 0.0..top)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .x_desc("minutes")
        .label_style(LABEL)
        .draw()?;
    let restarts = report.restarts.iter().map(|restart| {
        let at = restart.at_s / 60.0;
        PathElement::new([(at, 0.0), (at, top)], BLACK.mix(0.5))
    });
    chart.draw_series(restarts)?;
    for (number, curve) in curves.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        let line = LineSeries::new(curve.points.iter().copied(), color.stroke_width(1));
        chart
            .draw_series(line)?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .label_font(LABEL)
        .draw()?;
    Ok(())
}
