//! Draws the ratios of two servers as bars in an SVG file.

use std::ops::Range;
use std::path::Path;

use plotters::prelude::*;

use crate::compare::{Comparison, LoadgenResults};
use crate::error::LoadgenError;
use crate::plot::{FONT, drawing_failed};

const WIDTH: u32 = 900;
const ROW_HEIGHT: u32 = 26;
const LABEL_WIDTH: u32 = 300;
const FRAME_HEIGHT: u32 = 100;
const MARGIN: u32 = 12;
const SOURCE_LINE_HEIGHT: u32 = 17;
const TEXT_FONT: (&str, u32) = ("sans-serif", 13);
const BETTER: RGBColor = RGBColor(46, 125, 50);
const WORSE: RGBColor = RGBColor(198, 40, 40);
/// Figures that are not drawn, by the ends of their names: single requests decide about them, or other figures say the
/// same.
const LEFT_OUT: [&str; 5] = [
    " max",
    " p99.9",
    ": requests",
    ": CPU of all",
    ": own CPU per 1000 requests",
];
const AXIS_LABELS: usize = 8;
/// Where the text of a bar begins, relative to its end.
const TEXT_OFFSET: (i32, i32) = (6, -7);

/// Draws the ratios of results with two servers: of each figure a bar from 1 to the median, a line from the least to
/// the largest ratio. Rates should be large, all other figures small; a bar has one of two colours accordingly. Below
/// them is when and how the figures were measured, if the results say so.
///
/// # Errors
/// No result has a comparison, or the file cannot be written.
pub fn ratio_chart(
    results: &[LoadgenResults],
    title: &str,
    file: &Path,
) -> Result<(), LoadgenError> {
    let rows: Vec<(String, &Comparison)> = results.iter().flat_map(rows).collect();
    if rows.is_empty() {
        let reason = "no report compares two servers: measure with --vs".to_owned();
        return Err(LoadgenError::Usage(reason));
    }
    let source: Vec<&str> = results
        .iter()
        .flat_map(|one| &one.source)
        .map(String::as_str)
        .collect();
    draw(&rows, &source, title, file).map_err(drawing_failed(file))
}

/// The figures of one scenario that have a ratio, with their labels.
fn rows(results: &LoadgenResults) -> impl Iterator<Item = (String, &Comparison)> {
    let scenario = results.reports.first();
    let scenario = scenario.map_or("", |report| &report.scenario);
    let drawable = |one: &&Comparison| {
        let is_left_out = LEFT_OUT.iter().any(|end| one.name.ends_with(end));
        one.ratio_least > 0.0 && one.ratio_most.is_finite() && !is_left_out
    };
    let label = move |one: &Comparison| match one.name.starts_with(scenario) {
        true => format!("{} ({})", one.name, one.unit),
        false => format!("{scenario}: {} ({})", one.name, one.unit),
    };
    let drawable = results.comparisons.iter().filter(drawable);
    drawable.map(move |one| (label(one), one))
}

/// Whether a larger figure is better.
fn is_rate(one: &Comparison) -> bool {
    one.unit.ends_with("/s")
}

/// The axis: from 1 to beyond all ratios, with room for the text of the bars.
fn axis(rows: &[(String, &Comparison)]) -> Range<f64> {
    let least = rows.iter().map(|(_, one)| one.ratio_least);
    let most = rows.iter().map(|(_, one)| one.ratio_most);
    least.fold(1.0, f64::min) / 1.5..most.fold(1.0, f64::max) * 2.5
}

/// A ratio with three digits.
fn digits(ratio: f64) -> String {
    let whole_digits = (1..3).filter(|power| ratio >= 10_f64.powi(*power)).count();
    let leading_zeros = (0..6).filter(|power| ratio < 10_f64.powi(-power)).count();
    format!("{ratio:.0$}", 2 - whole_digits + leading_zeros)
}

/// The label of a position on the axis.
fn axis_label(ratio: &f64) -> String {
    digits(*ratio)
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

fn draw(
    rows: &[(String, &Comparison)],
    source: &[&str],
    title: &str,
    file: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let count = u32::try_from(rows.len())?;
    let source_height = SOURCE_LINE_HEIGHT * u32::try_from(source.len())?;
    let height = FRAME_HEIGHT + ROW_HEIGHT * count + source_height;
    let size = (WIDTH, height);
    let area = SVGBackend::new(file, size).into_drawing_area();
    area.fill(&WHITE)?;
    // Rows are counted from below.
    let last = f64::from(count) - 1.0;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, FONT)
        .margin(MARGIN)
        .margin_bottom(MARGIN + source_height)
        .x_label_area_size(30)
        .margin_left(LABEL_WIDTH)
        .build_cartesian_2d(axis(rows).log_scale(), -0.5..last + 0.5)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .x_labels(AXIS_LABELS)
        .x_label_formatter(&axis_label)
        .draw()?;
    for (row, (label, one)) in (0..count).zip(rows) {
        let y = last - f64::from(row);
        let color = match (one.ratio >= 1.0) == is_rate(one) {
            true => BETTER,
            false => WORSE,
        };
        let bar = [(1.0, y - 0.35), (one.ratio, y + 0.35)];
        let spread = [(one.ratio_least, y), (one.ratio_most, y)];
        let text = digits(one.ratio);
        let end = (one.ratio_most.max(1.0), y);
        chart.draw_series([Rectangle::new(bar, color.mix(0.6).filled())])?;
        chart.draw_series([PathElement::new(spread, BLACK)])?;
        chart.draw_series([EmptyElement::at(end) + Text::new(text, TEXT_OFFSET, TEXT_FONT)])?;
        let (_, pixel) = chart.backend_coord(&(1.0, y));
        area.draw(&Text::new(
            label.clone(),
            (12, pixel + TEXT_OFFSET.1),
            TEXT_FONT,
        ))?;
    }
    for (line, y) in source
        .iter()
        .zip((height - source_height - MARGIN / 2..).step_by(SOURCE_LINE_HEIGHT as usize))
    {
        area.draw(&Text::new(
            (*line).to_owned(),
            (12, i32::try_from(y)?),
            TEXT_FONT,
        ))?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(name: &str, unit: &str, ratio: f64) -> Comparison {
        Comparison {
            name: name.to_owned(),
            unit: unit.to_owned(),
            a: 1.0,
            b: ratio,
            ratio,
            ratio_least: ratio * 0.9,
            ratio_most: ratio * 1.1,
        }
    }

    fn results(comparisons: Vec<Comparison>) -> LoadgenResults {
        LoadgenResults {
            reports: Vec::new(),
            comparisons,
            source: vec!["measured on Monday".to_owned()],
        }
    }

    #[test]
    fn a_bar_shows_each_ratio_and_whether_it_is_better() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ratios.svg");
        let compared = results(vec![
            comparison("publish", "jobs/s", 2.5),
            comparison("publish latency p99", "ms", 0.25),
            comparison("ack latency p99", "ms", 1.5),
            comparison("never measured", "ms", f64::NAN),
            comparison("publish latency max", "ms", 3.0),
        ]);
        ratio_chart(&[compared], "new / old", &file).unwrap();
        let svg = std::fs::read_to_string(&file).unwrap();
        for text in [
            "new / old",
            "publish (jobs/s)",
            "2.50",
            "0.250",
            "1.50",
            "measured on Monday",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("never measured") && !svg.contains("max"));
        let bars = |color: &str| svg.matches(color).count();
        assert_eq!((bars("#2E7D32"), bars("#C62828")), (2, 1), "{svg}");
    }

    #[test]
    fn ratios_have_three_digits() {
        let shown = [0.00105, 0.333, 1.0, 2.6, 10.3, 234.4].map(digits);
        assert_eq!(shown, ["0.00105", "0.333", "1.00", "2.60", "10.3", "234"]);
        assert_eq!(
            [0.01, 1.0, 10.0].map(|at| axis_label(&at)),
            ["0.01", "1", "10"]
        );
    }

    #[test]
    fn results_of_one_server_have_no_ratios() {
        let file = Path::new("unwritten.svg");
        let error = ratio_chart(&[results(Vec::new())], "", file).unwrap_err();
        assert!(error.to_string().contains("--vs"), "{error}");
        assert!(!file.exists());
    }
}
